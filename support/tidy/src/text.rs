//! What stands in the files: how much, which words, and which links.

use crate::Violation;
use crate::repository::{Repository, Source};

/// The most lines of a file with code. Half of it is the aim.
const FILE: usize = 700;

const CODE: &[&str] = &["rs", "c", "h", "sh", "py"];

const SPLIT: &str = "split it by meaning: one file for each thing that can happen";

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

const MOVED: &str = "the file or heading has another name now, or is gone: say where to look instead";

/// Every file that is too long. (Clippy counts the lines of functions.)
pub fn long_files(repository: &Repository) -> Vec<Violation> {
    let is_code =
        |source: &&Source| CODE.iter().any(|extension| source.is(extension)) || source.text.starts_with("#!/");
    let files = repository.sources.iter().filter(is_code).map(|source| (source, source.text.lines().count()));
    let long = files.filter(|(_, lines)| *lines > FILE);
    long.map(|(source, lines)| Violation::new(&source.path, format!("{lines} lines, more than {FILE}"), SPLIT))
        .collect()
}

/// Every forbidden word.
pub fn forbidden_words(repository: &Repository) -> Vec<Violation> {
    let mut violations = vec![];
    for source in repository.sources.iter().filter(|source| !source.path.ends_with("Cargo.lock")) {
        for (number, line) in source.text.lines().enumerate() {
            for (head, tail, fix) in FORBIDDEN {
                let word = format!("{head}{tail}");
                if has(line, &word) {
                    violations.push(Violation::new(source.line(number + 1), format!("`{word}`"), fix));
                }
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

/// Every link from a page to a file or heading that does not exist.
pub fn broken_links(repository: &Repository) -> Vec<Violation> {
    let mut violations = vec![];
    for page in repository.sources.iter().filter(|source| source.is("md")) {
        for (number, line) in page.text.lines().enumerate() {
            for link in links(line).filter(|link| !is_there(link, page, repository)) {
                violations.push(Violation::new(page.line(number + 1), format!("a link to `{link}`"), MOVED));
            }
        }
    }
    violations
}

/// What stands between `](` and `)`, within this repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("](").map(|(at, found)| at + found.len());
    starts.filter_map(|at| line[at..].split(')').next()).filter(|link| !link.contains("://"))
}

fn is_there(link: &str, page: &Source, repository: &Repository) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
    let file = repository.source(&path);
    match heading {
        "" => file.is_some() || repository.sources.iter().any(|source| source.path.starts_with(&format!("{path}/"))),
        heading => file.is_some_and(|file| file.text.lines().any(|line| anchor(line).as_deref() == Some(heading))),
    }
}

/// A path as it is written in a page, from the repository's root.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// How a heading is called in links to it.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(check: fn(&Repository) -> Vec<Violation>, path: &str, text: &str) -> Vec<Violation> {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources =
            vec![source(path, text), source("docs/wire.md", "## What a switch sees\n"), source("bpf/src/lib.rs", "")];
        check(&Repository { sources, crates: vec![] })
    }

    #[test]
    fn a_long_file_is_seen_and_a_long_page_is_read() {
        let with = |path: &str, text: &str| with(long_files, path, text);
        let lines = "\n".repeat(FILE + 1);
        assert_eq!(with("bpf/steer.bpf.c", &lines)[0].fix, SPLIT);
        assert_eq!(with("scripts/test", &format!("#!/usr/bin/env bash{lines}"))[0].fix, SPLIT);
        assert_eq!(with("docs/page.md", &lines), []);
        assert_eq!(with("bpf/steer.bpf.c", &"\n".repeat(FILE)), []);
    }

    #[test]
    fn each_word_is_seen() {
        for (head, tail, fix) in FORBIDDEN {
            let seen = with(forbidden_words, "README.md", &format!("fine\nsee \"{head}{tail}\" here\n"));
            assert_eq!((seen[0].place.as_str(), seen[0].fix), ("README.md:2", *fix));
        }
    }

    #[test]
    fn a_part_of_a_longer_word_is_not() {
        let (head, tail, _) = FORBIDDEN[2];
        assert_eq!(with(forbidden_words, "README.md", &format!("see $HOME{head}{tail} and sys{head}{tail}")), []);
    }

    #[test]
    fn what_is_there_is_found() {
        let fine =
            "[a](wire.md), [b](../bpf/src/lib.rs) [c](../bpf) [d](wire.md#what-a-switch-sees) [e](https://a.b/c)\n";
        assert_eq!(with(broken_links, "docs/page.md", fine), []);
        assert_eq!(with(broken_links, "docs/page.md", "# Here, too\n[a](#here-too)\n"), []);
    }

    #[test]
    fn what_is_not_is_seen() {
        for text in ["[a](wires.md)", "[a](../bpf/src)[b](../bp)", "[a](wire.md#switches)", "[a](#there)"] {
            assert_eq!(with(broken_links, "docs/page.md", text).len(), 1, "{text}");
        }
    }
}
