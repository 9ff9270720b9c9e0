//! Files and functions that fit into a head.

use proc_macro2::{Delimiter, Ident, TokenTree};

use crate::Violation;
use crate::repository::{Repository, Source};
use crate::tokens::{is_group, lex, line, sequences, word};

/// The most lines of a file with code. Half of it is the aim.
pub const FILE: usize = 400;

/// The most lines of a function, from its `fn` to its closing brace.
pub const FUNCTION: usize = 40;

const CODE: &[&str] = &["rs", "c", "h", "sh", "py"];

const SPLIT: &str = "split it by meaning: one file for each thing that can happen";
const SHORTEN: &str = "give a part of it a name";

/// Every file and every function that is too long.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let code = repository.sources.iter().filter(|source| is_code(source));
    let files = code.filter(|source| source.text.lines().count() > FILE);
    let files = files.map(|source| {
        Violation::new(&source.path, format!("{} lines, more than {FILE}", source.text.lines().count()), SPLIT)
    });
    files.chain(repository.rust().flat_map(check_functions)).collect()
}

fn is_code(source: &Source) -> bool {
    CODE.iter().any(|extension| source.is(extension)) || source.text.starts_with("#!/")
}

fn check_functions(source: &Source) -> Vec<Violation> {
    let functions = sequences(lex(&source.text)).into_iter().flat_map(|tokens| functions(&tokens));
    let long = functions.filter(|&(_, _, lines)| lines > FUNCTION);
    long.map(|(name, at, lines)| {
        Violation::new(source.line(at), format!("`{name}` has {lines} lines, more than {FUNCTION}"), SHORTEN)
    })
    .collect()
}

/// Name, line and length of each function among these tokens.
fn functions(tokens: &[TokenTree]) -> Vec<(String, usize, usize)> {
    let starts = (0..tokens.len()).filter(|&at| word(tokens.get(at)).is_some_and(|word| word == "fn"));
    starts
        .filter_map(|at| {
            let name: &Ident = word(tokens.get(at + 1))?;
            let ends = |token: &&TokenTree| {
                is_group(token, Delimiter::Brace) || matches!(token, TokenTree::Punct(p) if p.as_char() == ';')
            };
            let body = tokens[at..].iter().find(ends).filter(|token| is_group(token, Delimiter::Brace))?;
            let start = line(&tokens[at]);
            Some((name.to_string(), start, body.span().end().line + 1 - start))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str, text: String) -> Vec<Violation> {
        check(&Repository { sources: vec![Source { path: path.into(), text }], crates: vec![] })
    }

    #[test]
    fn a_long_file_is_seen_and_a_long_page_is_read() {
        let lines = "\n".repeat(FILE + 1);
        assert_eq!(with("bpf/steer.bpf.c", lines.clone())[0].fix, SPLIT);
        assert_eq!(with("scripts/test", format!("#!/usr/bin/env bash{lines}"))[0].fix, SPLIT);
        assert_eq!(with("docs/wire.md", lines), []);
        assert_eq!(with("bpf/steer.bpf.c", "\n".repeat(FILE)), []);
    }

    #[test]
    fn a_long_function_is_seen_wherever_it_is() {
        let function =
            |lines: usize| format!("mod a {{\n impl B {{\n  fn f<T>() -> u8 {{{}}}\n }}\n}}\n", "\n".repeat(lines - 1));
        assert_eq!(with("a.rs", function(FUNCTION)), []);
        let seen = with("a.rs", function(FUNCTION + 1));
        assert_eq!((seen[0].place.as_str(), seen[0].fix), ("a.rs:3", SHORTEN));
    }

    #[test]
    fn a_signature_is_no_function() {
        assert_eq!(with("a.rs", format!("trait A {{ fn f(&self);{} }}\n", "\n".repeat(FUNCTION + 1))), []);
    }
}
