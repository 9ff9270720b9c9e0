//! What the headers say about the library.

use std::process::Command;

use crate::program::run;
use am2::{Code, Status};

const HEADERS: [&str; 2] = [include_str!("../../include/am.h"), include_str!("../../include/am_spmd.h")];
const SOURCES: [&str; 4] = [
    include_str!("../../src/calls.rs"),
    include_str!("../../src/events.rs"),
    include_str!("../../src/messages.rs"),
    include_str!("../../src/spmd.rs"),
];

fn names<'a>(texts: &[&'a str], before: &str) -> Vec<&'a str> {
    let lines = texts.iter().flat_map(|text| text.lines());
    let mut names: Vec<_> = lines
        .filter_map(|line| line.trim_start().split_once(before)?.1.split_once('(').map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn the_headers_declare_what_the_library_has() {
    let lines: Vec<&str> =
        HEADERS.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("int AM")).collect();
    let declared = names(&lines, "int ");
    assert_eq!(declared, names(&SOURCES, "extern \"C\" fn "));
    assert!(declared.len() > 45, "{declared:?}");
}

#[test]
fn the_header_numbers_results_as_the_library_does() {
    let number = |name: &str| {
        let line = HEADERS[0].lines().find(|line| line.starts_with(&format!("#define {name} "))).expect(name);
        line.split_whitespace().nth(2).and_then(|number| number.parse::<i32>().ok()).expect(name)
    };
    for (name, code) in [
        ("AM_OK", Code::Ok),
        ("AM_ERR_NOT_INIT", Code::NotInit),
        ("AM_ERR_BAD_ARG", Code::BadArg),
        ("AM_ERR_RESOURCE", Code::Resource),
        ("AM_ERR_NOT_SENT", Code::NotSent),
        ("AM_ERR_IN_USE", Code::InUse),
    ] {
        assert_eq!(number(name), code as i32, "{name}");
    }
    for (name, status) in [
        ("EBADARGS", Status::BadArgs),
        ("EBADENTRY", Status::BadEntry),
        ("EBADTAG", Status::BadTag),
        ("EBADHANDLER", Status::BadHandler),
        ("EBADSEGOFF", Status::BadSegmentOffset),
        ("EBADLENGTH", Status::BadLength),
        ("EBADENDPOINT", Status::BadEndpoint),
        ("ECONGESTION", Status::Congestion),
        ("EUNREACHABLE", Status::Unreachable),
    ] {
        assert_eq!(number(name), status as i32, "{name}");
    }
}

/// The headers are C++ too.
#[test]
fn a_cpp_program_can_include_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("program.cc");
    std::fs::write(&source, "#include <am_spmd.h>\nint main() { return AM_Request2(0, 0, 1, 2, 3) == AM_OK; }\n")
        .expect("a file");
    let mut cc = Command::new("c++");
    cc.args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o"])
        .arg(directory.path().join("program.o"));
    run(cc.arg("-I").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).arg(source));
}
