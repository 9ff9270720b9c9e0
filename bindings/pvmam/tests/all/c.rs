//! C programs in one process, and what the header says about the library.

use crate::LIBRARY;

use am_testing::c_program::numbers_in_header;
use pvmam::Code;

const HEADER: &str = include_str!("../../include/pvmam.h");

/// A program means the same in C and in C++.
#[test]
fn each_language_has_the_header() {
    let said = LIBRARY.in_each_language("tests/c/both.c", "");
    assert!(said.len() > 3 && said[0].1.contains("the same in both"), "{said:?}");
    said.iter().for_each(|(language, text)| assert_eq!(*text, said[0].1, "{language}"));
}

#[test]
fn misuse_is_an_error_that_says_what_to_do() {
    assert_eq!(LIBRARY.build("tests/c/misuse.c").start("", &[]).end(), "all as it should be\n");
}

#[test]
fn many_tasks_connect_send_and_leave() {
    assert_eq!(LIBRARY.build("tests/c/tasks.c").start("", &[]).end(), "all to all\n");
}

#[test]
fn a_thread_may_be_cancelled_and_a_handler_may_end_its_thread() {
    assert_eq!(LIBRARY.build("tests/c/cancel.c").start("", &[]).end(), "the process is still there\n");
}

#[test]
fn a_process_may_end_with_interfaces_open() {
    let program = LIBRARY.build("tests/c/last.c");
    for how in ["returns", "exits", "cancelled", "other", "handler"] {
        assert_eq!(program.start("", &[how]).end(), "open\n", "{how}");
    }
}

#[test]
fn the_programs_files_with_numbers_of_the_library_are_left_alone() {
    let program = LIBRARY.build("tests/c/numbers.c");
    let shm = format!("shm:pvmam-numbers-{}", std::process::id());
    for transport in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", &shm, "sim:1"] {
        for how in ["dup", "close"] {
            for kind in ["file", "pipe", "event"] {
                let said = program.start("", &[transport, how, kind]).end();
                assert_eq!(said, "mine are as they were\n", "{transport} {how} {kind}");
            }
        }
    }
}

#[test]
fn the_header_numbers_failures_as_the_library_does() {
    let lines = numbers_in_header(HEADER, "AM_E_");
    assert_eq!(lines.len(), Code::ALL.len());
    for ((name, number), code) in lines.into_iter().zip(Code::ALL) {
        // `NotInitialized` is AM_E_NOT_INITIALIZED.
        let variant = format!("{code:?}").to_uppercase();
        assert_eq!((name, number), (variant, code as i32));
        assert_eq!(Code::of(number), Some(code));
    }
}

#[test]
fn the_header_declares_what_the_library_has() {
    let calls = [
        include_str!("../../src/calls.rs"),
        include_str!("../../src/task_calls.rs"),
        include_str!("../../src/message_calls.rs"),
    ]
    .concat();
    let name = |rest: &str| rest.split_once('(').map(|(name, _)| name.to_owned());
    let mut defined: Vec<String> = calls.split("extern \"C-unwind\" fn ").skip(1).filter_map(name).collect();
    let is_call = |line: &&str| line.ends_with(");") && !line.starts_with([' ', '/', 't', '}']);
    let declaration =
        |line: &str| line.split_once('(').and_then(|(start, _)| start.rsplit([' ', '*']).next().map(ToOwned::to_owned));
    let mut declared: Vec<String> = HEADER.lines().filter(is_call).filter_map(declaration).collect();
    defined.sort_unstable();
    declared.sort_unstable();
    assert_eq!(declared, defined);
    assert!(declared.len() >= 29, "{declared:?}");
}
