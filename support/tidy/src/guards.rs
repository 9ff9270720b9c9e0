//! No borrow and no lock in the head of a loop, a `match` or an `if let`.
//!
//! ```text
//!   while let Some(next) = queue.borrow_mut().pop() {     the guard lives to the end of the body, which may need the queue again:
//!       push(queue, next);                                a panic for a cell, for ever for a mutex
//!   }
//! ```
//!
//! Clippy's `significant_drop_in_scrutinee` looks at `match` and not at `while let`. This check looks at every head: a guard that is made
//! there, and is not what the head is about, lives through the body unseen. `if let Ok(guard) = cell.try_borrow()` names it, and is fine; so
//! is a closure, which drops it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::Violation;
use crate::repository::Repository;

const NAME: &str = "bind what comes out before the head, or bind the guard, so that its end is seen";

/// Methods without arguments that make a guard.
const METHODS: &[&str] = &["borrow", "borrow_mut", "lock", "read", "write"];
/// Methods that take a guard out of a result.
const UNWRAPS: &[&str] = &["unwrap", "expect", "unwrap_or_else"];

/// Every guard that is made in a head.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = vec![];
    for source in repository.rust() {
        let Ok(tokens) = source.text.parse::<TokenStream>() else { continue };
        look(tokens, &mut |line| {
            violations.push(Violation::new(source.line(line), "a guard lives through the body", NAME));
        });
    }
    violations
}

fn look(tokens: TokenStream, found: &mut impl FnMut(usize)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => look(group.stream(), found),
            TokenTree::Ident(name) => {
                let heads = heads(&name.to_string(), &tokens[at + 1..]);
                if heads.into_iter().any(has_hidden_guard) {
                    found(name.span().start().line);
                }
            }
            _ => {}
        }
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_word(token: &TokenTree, wanted: &str) -> bool {
    matches!(token, TokenTree::Ident(name) if name == wanted)
}

fn is_group(token: &TokenTree, wanted: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == wanted)
}

/// What the body is about, of the statement that begins with this word.
fn heads<'a>(word: &str, after: &'a [TokenTree]) -> Vec<&'a [TokenTree]> {
    let body = after.iter().position(|token| is_group(token, Delimiter::Brace) || is_punct(token, ';'));
    let Some(head) = body.map(|body| &after[..body]) else { return vec![] };
    match word {
        "match" => vec![head],
        // Of a trait's `impl .. for ..` there is no `in`.
        "for" => head.iter().position(|token| is_word(token, "in")).map(|at| &head[at + 1..]).into_iter().collect(),
        "if" | "while" => {
            let lets =
                head.iter().enumerate().filter(|(_, token)| is_word(token, "let")).map(|(at, _)| &head[at + 1..]);
            lets.filter_map(scrutinee).collect()
        }
        _ => vec![],
    }
}

/// What stands behind the pattern, up to the next condition.
fn scrutinee(binding: &[TokenTree]) -> Option<&[TokenTree]> {
    let is_joint =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.spacing() == proc_macro2::Spacing::Joint);
    let is_before = |at: usize| at > 0 && is_joint(&binding[at - 1]);
    let alone = |&at: &usize| is_punct(&binding[at], '=') && !is_joint(&binding[at]) && !is_before(at);
    let expression = &binding[(0..binding.len()).find(alone)? + 1..];
    let pairs = expression.windows(2);
    let end = pairs.enumerate().find(|(_, two)| two.iter().all(|token| is_punct(token, '&')) && is_joint(&two[0]));
    Some(&expression[..end.map_or(expression.len(), |(at, _)| at)])
}

/// What stands before the first closure, which drops what it makes.
fn before_closure(tokens: &[TokenTree]) -> &[TokenTree] {
    &tokens[..tokens.iter().position(|token| is_punct(token, '|')).unwrap_or(tokens.len())]
}

/// Whether a guard is made here that is not the value itself.
fn has_hidden_guard(head: &[TokenTree]) -> bool {
    let head = before_closure(head);
    let is_taken_apart = head.first().is_some_and(|token| is_punct(token, '*') || is_punct(token, '&'));
    head.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            let inside = before_closure(&inside);
            has_hidden_guard(inside) || (0..inside.len()).any(|at| makes_guard(inside, at))
        }
        _ => makes_guard(head, at) && (is_taken_apart || !is_value(&head[at + 2..])),
    })
}

/// Whether `.lock()`, or a function of that name, is called at this token.
fn makes_guard(tokens: &[TokenTree], at: usize) -> bool {
    let TokenTree::Ident(name) = &tokens[at] else { return false };
    let Some(TokenTree::Group(arguments)) = tokens.get(at + 1) else { return false };
    if arguments.delimiter() != Delimiter::Parenthesis {
        return false;
    }
    let is_method = at > 0 && is_punct(&tokens[at - 1], '.');
    let is_known = METHODS.iter().any(|method| name == method);
    (is_method && is_known && arguments.stream().is_empty()) || (!is_method && name == "lock")
}

/// Whether nothing comes behind the guard but what takes it out of a result.
fn is_value(mut rest: &[TokenTree]) -> bool {
    loop {
        rest = match rest {
            [] => return true,
            [question, rest @ ..] if is_punct(question, '?') => rest,
            [_, TokenTree::Ident(name), _, rest @ ..] if UNWRAPS.iter().any(|unwrap| name == unwrap) => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Source;

    fn lines(text: &str) -> usize {
        let sources = vec![Source { path: "a/src/lib.rs".into(), text: format!("fn f() {{ {text} }}") }];
        check(&Repository { sources, crates: vec![] }).len()
    }

    #[test]
    fn a_guard_in_a_head_is_found() {
        for text in [
            "while let Some(Queued { to, .. }) = ep.queued.borrow_mut().pop_front() {}",
            "if let Some(x) = self.a.lock().unwrap().get(0) {}",
            "if is_so && let Some(x) = a.borrow().get(0) && x > 1 {}",
            "match lock(&self.child).try_wait() { _ => {} }",
            "match *a.borrow() { _ => {} }",
            "match &mut a.borrow_mut()[at] { _ => {} }",
            "for x in a.read().unwrap().iter() {}",
            "match take(&a.borrow()) { _ => {} }",
            "let x = || { for y in &*a.borrow() {} };",
        ] {
            assert_eq!(lines(text), 1, "{text}");
        }
    }

    #[test]
    fn what_ends_before_the_body_is_fine() {
        for text in [
            "let next = a.borrow_mut().pop(); while let Some(x) = next() {}",
            "while a.borrow().is_empty() {}",
            "if let Ok(x) = a.try_borrow() {}",
            "match a.lock() { Ok(guard) => {} Err(_) => {} }",
            "if let Some(x) = find(|| a.borrow().get(0)) {}",
            "if a.borrow().x == 1 && let Some(y) = z {}",
            "match file.read(&mut bytes) { _ => {} }",
            "impl Drop for A { fn drop(&mut self) { self.a.borrow_mut().clear(); } }",
        ] {
            assert_eq!(lines(text), 0, "{text}");
        }
    }
}
