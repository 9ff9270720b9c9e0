//! Words that have no place in what others read and run.

use crate::Violation;
use crate::repository::{Repository, Source};

const PORTABLE: &str = "this is a path of one machine: ask the system for it, or write it from the repository's root";
const DONE: &str = "finish it, or leave it out: nothing here is called done that is not";

/// Word and what to do about it. Cut in two, so that this file has none of them.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("/tm", "p/", PORTABLE),
    ("/ho", "me/", PORTABLE),
    ("/ro", "ot/", PORTABLE),
    ("/Us", "ers/", PORTABLE),
    ("/wo", "rk/", PORTABLE),
    ("FIX", "ME", DONE),
    ("TO", "DO", DONE),
    ("X", "XX", DONE),
];

/// Every forbidden word.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let written = repository.sources.iter().filter(|source| !source.path.ends_with("Cargo.lock"));
    written.flat_map(check_source).collect()
}

fn check_source(source: &Source) -> Vec<Violation> {
    let mut violations = vec![];
    for (number, line) in source.text.lines().enumerate() {
        for (head, tail, fix) in FORBIDDEN {
            let word = format!("{head}{tail}");
            if has(line, &word) {
                violations.push(Violation::new(source.line(number + 1), format!("`{word}`"), fix));
            }
        }
    }
    violations
}

/// The word, and not the end of a longer one.
fn has(line: &str, word: &str) -> bool {
    let mut ends = line.match_indices(word).map(|(at, _)| &line[..at]);
    ends.any(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Vec<Violation> {
        check_source(&Source { path: "README.md".into(), text: text.into() })
    }

    #[test]
    fn each_is_seen() {
        for (head, tail, fix) in FORBIDDEN {
            let seen = with(&format!("fine\nsee \"{head}{tail}\" here\n"));
            assert_eq!((seen[0].place.as_str(), seen[0].fix), ("README.md:2", *fix));
        }
    }

    #[test]
    fn a_part_of_a_longer_word_is_not() {
        let (head, tail, _) = FORBIDDEN[2];
        assert_eq!(with(&format!("see $HOME{head}{tail} and sys{head}{tail}")), []);
    }
}
