//! The rules of the house, over this repository. What fails here says what to do.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use am_tidy::repository::Repository;
use am_tidy::{Violation, circles, edges, guards, text};

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
fn modules_need_each_other_one_way() {
    none(circles::check);
}

#[test]
fn no_guard_lives_through_a_body_unseen() {
    none(guards::check);
}

#[test]
fn files_are_short() {
    none(text::long_files);
}

#[test]
fn nothing_of_one_machine_nothing_left_for_later() {
    none(text::forbidden_words);
}

/// A test may be ignored only if another test starts it as a process of its own.
#[test]
fn every_test_runs() {
    for source in REPOSITORY.rust() {
        let mut ignored = source.text.lines().map(str::trim).filter(|line| line.starts_with("#[ignore"));
        assert!(ignored.all(|line| line.starts_with("#[ignore = \"started by ")), "{}: an ignored test", source.path);
    }
}

/// What a program may return from `main` prints its text. A type that keeps the derived `Debug` prints its fields instead.
#[test]
fn errors_of_programs_print_their_text() {
    const CRATES: [&str; 12] = [
        "am-api/src/",
        "layers/",
        "tools/amd/src/",
        "support/spmd/src/",
        "netdev-sim/src/",
        "datapath/transport/src/",
        "datapath/engine/src/",
        "datapath/afxdp/src/",
        "datapath/dpdk/src/",
        "datapath/shm/src/",
        "datapath/sockets/src/",
        "datapath/vnic/src/",
    ];
    let of_programs = |path: &str| CRATES.iter().any(|folder| path.starts_with(folder));
    for source in REPOSITORY.rust().filter(|source| of_programs(&source.path)) {
        for item in source.text.split("#[derive(").skip(1) {
            let Some((derived, rest)) = item.split_once(")]") else { continue };
            let head = rest.lines().find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with(' '));
            let is_public = head.is_some_and(|line| line.starts_with("pub enum") || line.starts_with("pub struct"));
            let is_error = derived.contains("thiserror::Error") && is_public && !source.path.contains("/conformance/");
            assert!(
                !is_error || !derived.contains("Debug"),
                "{}: `{}`: leave Debug out, and say debug_as_display!",
                source.path,
                head.unwrap_or_default()
            );
        }
    }
}

/// A reader that ends early kills the command before it by SIGPIPE, sometimes: with `pipefail` what was found counts as not found.
#[test]
fn no_script_stops_reading_a_pipe() {
    let scripts = || REPOSITORY.sources.iter().filter(|source| source.path.starts_with("scripts/"));
    assert!(scripts().any(|source| source.text.contains("pipefail")), "no scripts");
    for source in scripts() {
        for (number, line) in source.text.lines().enumerate() {
            let pipe = line.replace("||", "&&");
            let mut readers = pipe.split("| ").skip(1).map(|reader| reader.split(' ').take(2).collect::<Vec<_>>());
            let is_early = |reader: Vec<&str>| match reader[..] {
                ["head", ..] => true,
                ["grep", options] => options.starts_with('-') && options.contains('q'),
                _ => false,
            };
            let is_comment = line.trim_start().starts_with('#');
            assert!(is_comment || !readers.any(is_early), "{}, line {}: {line}", source.path, number + 1);
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    none(text::broken_links);
}

#[test]
fn every_decision_has_a_number_of_its_own() {
    let names = REPOSITORY.sources.iter().filter_map(|source| source.path.strip_prefix("docs/decisions/"));
    let mut numbers: Vec<&str> = names.filter_map(|name| name.split_once('-')).map(|(number, _)| number).collect();
    let count = numbers.len();
    numbers.dedup();
    assert!(
        count > 0 && numbers.len() == count,
        "two decisions with one number; the first free one is {count:04} or later"
    );
}

/// The counters that the operating guide explains are counted somewhere.
#[test]
fn every_counter_on_the_page_exists() {
    let page = &REPOSITORY.source("docs/operating.md").expect("the guide").text;
    let (_, table) = page.split_once("\n| counter |").expect("its table of counters");
    let cells = table.lines().skip(2).take_while(|row| row.starts_with('|')).filter_map(|row| row.split('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let mut code = REPOSITORY.rust().filter(|source| source.path.contains("/src/"));
        assert!(code.any(|source| source.text.contains(name)), "nothing counts `{name}` any more");
    }
}

/// The checks have something to check.
#[test]
fn the_repository_was_found() {
    for name in ["am-wire", "am-ring", "am-proto", "am-transport", "am-engine"] {
        assert!(REPOSITORY.crates.iter().any(|member| member.name == name), "{name}");
    }
    assert!(REPOSITORY.source("datapath/wire/src/lib.rs").is_some());
    assert!(REPOSITORY.source("README.md").is_some());
    for source in REPOSITORY.rust() {
        assert!(source.lexes(), "{}", source.path);
    }
}
