//! The rules of the house, over this repository. What fails here says what to do.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use tidy::repository::Repository;
use tidy::{Violation, edges, links, pages, sizes, skips, unsafety, words};

static REPOSITORY: LazyLock<Repository> = LazyLock::new(|| Repository::load().expect("the repository can be read"));

fn none(check: fn(&Repository) -> Vec<Violation>) {
    let violations = check(&REPOSITORY);
    let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(list.is_empty(), "\n\n{}\n", list.join("\n"));
}

#[test]
fn dependencies_point_down() {
    none(edges::check);
}

#[test]
fn unsafe_stays_where_it_may_be() {
    none(unsafety::check);
}

#[test]
fn files_and_functions_are_short() {
    none(sizes::check);
}

#[test]
fn nothing_of_one_machine_nothing_left_for_later() {
    none(words::check);
}

#[test]
fn every_test_runs() {
    none(skips::check);
}

#[test]
fn every_crate_has_a_page() {
    none(pages::check);
}

#[test]
fn every_link_leads_somewhere() {
    none(links::check);
}

/// The checks have something to check.
#[test]
fn the_repository_was_found() {
    for name in ["wire", "ring", "proto", "transport", "engine"] {
        assert!(REPOSITORY.crates.iter().any(|member| member.name == name), "{name}");
    }
    assert!(REPOSITORY.source("datapath/wire/src/lib.rs").is_some());
    assert!(REPOSITORY.source("README.md").is_some());
    for source in REPOSITORY.rust() {
        assert!(source.lexes(), "{}", source.path);
    }
}
