//! Tests run, all of them, or fail.
//!
//! One kind of ignored test is none: what a test starts as a process of its
//! own, `#[ignore = "started by the_test"]`.

use proc_macro2::{Delimiter, TokenTree};

use crate::Violation;
use crate::repository::{Repository, Source};
use crate::tokens::{is_group, lex, line, sequences, word};

const RUN: &str = "a test that is not run guards nothing: make it fast enough, or delete it";
const FAIL: &str = "without rights or devices a test fails and says what is missing; it is never passed over";

/// Every ignored test, and every one that says it skips.
pub fn check(repository: &Repository) -> Vec<Violation> {
    repository.rust().flat_map(check_source).collect()
}

fn check_source(source: &Source) -> Vec<Violation> {
    let mut violations = vec![];
    for tokens in sequences(lex(&source.text)) {
        for pair in tokens.windows(2) {
            if is_ignore(pair) && !is_started(&pair[1], &source.text) {
                violations.push(Violation::new(source.line(line(&pair[1])), "an ignored test", RUN));
            }
        }
        for token in tokens.iter().filter(|token| source.path.contains("/tests/") && says_skip(token)) {
            violations.push(Violation::new(source.line(line(token)), "a test that may skip itself", FAIL));
        }
    }
    violations
}

fn is_ignore(pair: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute)] = pair else { return false };
    let mut inside = sequences(attribute.stream()).into_iter().flatten();
    hash.as_char() == '#'
        && is_group(&pair[1], Delimiter::Bracket)
        && inside.any(|token| word(Some(&token)).is_some_and(|word| word == "ignore"))
}

/// Whether the attribute names the test of this file that starts it.
fn is_started(attribute: &TokenTree, file: &str) -> bool {
    let text = attribute.to_string();
    let by = text.split_once("started by ").and_then(|(_, by)| by.split('"').next());
    by.is_some_and(|by| file.contains(&format!("fn {by}(")))
}

/// A message that starts with `skip`.
fn says_skip(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Literal(text) if text.to_string().to_lowercase().starts_with(concat!("\"sk", "ip")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Vec<Violation> {
        check_source(&Source { path: "datapath/afxdp/tests/root_veth.rs".into(), text: text.into() })
    }

    #[test]
    fn ignored_tests_are_seen() {
        assert_eq!(with("#[test]\n#[ignore]\nfn a() {}\n")[0].fix, RUN);
        assert_eq!(
            with("mod a {\n#[ignore = \"slow\"]\nfn a() {}\n}\n")[0].place,
            "datapath/afxdp/tests/root_veth.rs:2"
        );
        assert_eq!(with("#[cfg_attr(miri, ignore)]\nfn a() {}\n").len(), 1);
        assert_eq!(with("/// Errors that we ignore.\n#[test]\nfn ignore() {}\n"), []);
    }

    #[test]
    fn a_test_may_start_another() {
        let child = "#[test]\n#[ignore = \"started by crash\"]\nfn child() {}\n";
        assert_eq!(with(&format!("{child}#[test]\nfn crash() {{}}\n")), []);
        assert_eq!(with(child).len(), 1, "nobody starts it");
    }

    #[test]
    fn tests_that_skip_are_seen() {
        assert_eq!(with("fn a() { eprintln!(\"Skipped: not root\"); }")[0].fix, FAIL);
        assert_eq!(with("fn a() { panic!(\"needs root\"); list.skip(1); }"), []);
    }
}
