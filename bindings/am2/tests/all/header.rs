//! What the headers say about the library.

use crate::LIBRARY;
use std::path::Path;
use std::process::Command;

use am_testing::c_program::run;
use am_testing::page::documented;
use am2::{AM_MaxLong, AM_MaxMedium, AM_MaxNumHandlers, AM_MaxShort, Code, Status};

const HEADERS: [&str; 2] = [include_str!("../../include/am.h"), include_str!("../../include/am_spmd.h")];
const SOURCES: [&str; 4] = [
    include_str!("../../src/calls.rs"),
    include_str!("../../src/events.rs"),
    include_str!("../../src/messages.rs"),
    include_str!("../../src/spmd.rs"),
];

/// The names of functions, behind one of these beginnings of a line.
fn names<'a>(texts: &[&'a str], before: &[&str]) -> Vec<&'a str> {
    let lines = texts.iter().flat_map(|text| text.lines());
    let declared = |line: &'a str| before.iter().find_map(|before| line.strip_prefix(before));
    let mut names: Vec<_> = lines
        .filter_map(|line| declared(line)?.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("AM"))
        .collect();
    names.sort_unstable();
    names
}

fn declared() -> Vec<&'static str> {
    names(&HEADERS, &["int ", "const char *"])
}

#[test]
fn the_headers_declare_what_the_library_has() {
    let declared = declared();
    assert_eq!(declared, names(&SOURCES, &["pub extern \"C-unwind\" fn ", "pub unsafe extern \"C-unwind\" fn "]));
    assert!(declared.len() > 45, "{declared:?}");
}

#[test]
fn the_page_of_promises_has_the_limits() {
    // `full.c` fills this one.
    assert_eq!(documented("translations of an AM-2 endpoint"), am_api::MAX_TRANSLATIONS);
    for (what, most) in [
        ("handlers of an AM-2 endpoint", AM_MaxNumHandlers()),
        ("arguments of an AM-2 message", AM_MaxShort()),
        ("bytes of an AM-2 medium message", AM_MaxMedium()),
        ("bytes of an AM-2 transfer", AM_MaxLong()),
    ] {
        assert_eq!(documented(what), usize::try_from(most).expect("a limit"), "{what}");
    }
    assert_eq!(documented("bundles of an AM-2 process"), am2::MAX_BUNDLES);
}

/// The C programs of these tests call every function, by what their linker asked for.
#[test]
fn each_function_is_called_by_a_test() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let files = std::fs::read_dir(sources).expect("C programs").map(|file| file.expect("a file").file_name());
    let programs =
        files.filter_map(|name| Some(format!("tests/c/{}", name.to_str().filter(|name| name.ends_with(".c"))?)));
    let called: String = programs
        .chain(["examples/ping.c".to_owned()])
        .map(|source| run(Command::new("nm").args(["-D", "-u"]).arg(LIBRARY.build(&source).path())))
        .collect();
    let is_called = |name: &&&str| called.split_whitespace().any(|word| word == **name);
    let declared = declared();
    let missing: Vec<_> = declared.iter().filter(|name| !is_called(name)).collect();
    assert!(missing.is_empty(), "no test calls {missing:?}");
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
        ("ENOCONNECTION", Status::NoConnection),
    ] {
        assert_eq!(number(name), status as i32, "{name}");
    }
}

/// A program means the same in C and in C++.
#[test]
fn each_language_has_the_headers() {
    let transport = format!("shm:am2-languages-{}", std::process::id());
    let said = LIBRARY.in_each_language("tests/c/both.c", &transport);
    assert!(said.len() > 3 && said[0].1.contains("the same in both"), "{said:?}");
    said.iter().for_each(|(language, text)| assert_eq!(*text, said[0].1, "{language}"));
}
