//! Every crate starts with a page.

use crate::Violation;
use crate::repository::{Repository, Source};

const WRITE: &str = "start the file with a page of `//!`: what it is, a figure in a ```text block, what to read first";

/// Every crate whose first page is missing or lacks a part.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let roots = repository.crates.iter().flat_map(|member| &member.roots);
    let pages = roots.filter(|root| root.ends_with("lib.rs") || root.ends_with("main.rs"));
    pages.filter_map(|root| repository.source(root)).flat_map(check_page).collect()
}

fn check_page(source: &Source) -> Vec<Violation> {
    let page: Vec<&str> = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
    let page = page.join("\n").to_lowercase();
    let parts = [("```text", "no figure"), ("first", "no word on what to read first")];
    let missing = parts.iter().filter(|(part, _)| !page.contains(part));
    missing.map(|(_, what)| Violation::new(&source.path, format!("a page with {what}"), WRITE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_parts() {
        let with = |text: &str| check_page(&Source { path: "am-api/src/lib.rs".into(), text: text.into() }).len();
        assert_eq!(with("mod a;\n//! ```text\n//! read first\n"), 2);
        assert_eq!(with("//! What it is.\n//!\n//! Read first: `a`.\nmod a;\n"), 1);
        assert_eq!(with("//! What it is.\n//! ```text\n//! +--+\n//! ```\n//! Read first: `a`.\nmod a;\n"), 0);
    }
}
