//! What a page points to is there.

use crate::Violation;
use crate::repository::{Repository, Source};

const MOVED: &str = "the file or heading has another name now, or is gone: say where to look instead";

/// Every link from a page to a file or heading that does not exist.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let pages = repository.sources.iter().filter(|source| source.is("md"));
    pages.flat_map(|page| check_page(page, repository)).collect()
}

fn check_page(page: &Source, repository: &Repository) -> Vec<Violation> {
    let mut violations = vec![];
    for (number, line) in page.text.lines().enumerate() {
        for link in links(line).filter(|link| !is_there(link, page, repository)) {
            violations.push(Violation::new(page.line(number + 1), format!("a link to `{link}`"), MOVED));
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

    fn with(text: &str) -> Vec<Violation> {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = vec![
            source("docs/page.md", text),
            source("docs/wire.md", "## What a switch sees\n"),
            source("bpf/src/lib.rs", ""),
        ];
        check(&Repository { sources, crates: vec![] })
    }

    #[test]
    fn what_is_there_is_found() {
        let fine =
            "[a](wire.md), [b](../bpf/src/lib.rs) [c](../bpf) [d](wire.md#what-a-switch-sees) [e](https://a.b/c)\n";
        assert_eq!(with(fine), []);
        assert_eq!(with("# Here, too\n[a](#here-too)\n"), []);
    }

    #[test]
    fn what_is_not_is_seen() {
        for text in ["[a](wires.md)", "[a](../bpf/src)[b](../bp)", "[a](wire.md#switches)", "[a](#there)"] {
            assert_eq!(with(text).len(), 1, "{text}");
        }
    }
}
