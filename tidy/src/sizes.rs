//! Files that fit into a head. (Clippy counts the lines of functions.)

use crate::Violation;
use crate::repository::{Repository, Source};

/// The most lines of a file with code. Half of it is the aim.
pub const FILE: usize = 400;

const CODE: &[&str] = &["rs", "c", "h", "sh", "py"];

const SPLIT: &str = "split it by meaning: one file for each thing that can happen";

/// Every file that is too long.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let code = repository.sources.iter().filter(|source| is_code(source));
    let files = code.map(|source| (source, source.text.lines().count())).filter(|(_, lines)| *lines > FILE);
    files
        .map(|(source, lines)| Violation::new(&source.path, format!("{lines} lines, more than {FILE}"), SPLIT))
        .collect()
}

fn is_code(source: &Source) -> bool {
    CODE.iter().any(|extension| source.is(extension)) || source.text.starts_with("#!/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_seen_and_a_long_page_is_read() {
        let with = |path: &str, text: String| {
            check(&Repository { sources: vec![Source { path: path.into(), text }], crates: vec![] })
        };
        let lines = "\n".repeat(FILE + 1);
        assert_eq!(with("bpf/steer.bpf.c", lines.clone())[0].fix, SPLIT);
        assert_eq!(with("scripts/test", format!("#!/usr/bin/env bash{lines}"))[0].fix, SPLIT);
        assert_eq!(with("docs/wire.md", lines), []);
        assert_eq!(with("bpf/steer.bpf.c", "\n".repeat(FILE)), []);
    }
}
