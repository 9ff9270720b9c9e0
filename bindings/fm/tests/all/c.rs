//! C programs in one process, and what the header says about the library.

use crate::LIBRARY;

use am_testing::c_program::numbers_in_header;
use amfm::Code;

const HEADER: &str = include_str!("../../include/fm.h");

#[test]
fn the_example_runs_over_memory() {
    let said = LIBRARY.build("examples/ping.c").start("", &[]).end();
    assert!(said.contains("1000 round trips of four words, 1500 of 1 to 1500 bytes, 0 bytes wrong"), "{said}");
}

/// A program means the same in C and in C++.
#[test]
fn each_language_has_the_header() {
    let said = LIBRARY.in_each_language("tests/both.c", "");
    assert!(said.len() > 3 && said[0].1.contains("the same in both"), "{said:?}");
    said.iter().for_each(|(language, text)| assert_eq!(*text, said[0].1, "{language}"));
}

#[test]
fn misuse_is_an_error_that_says_what_to_do() {
    let said = LIBRARY.build("tests/misuse.c").start("", &[]).end();
    assert!(said.contains("all as it should be"), "{said}");
}

/// A node that is lent out to the handler which ends the program is left alone.
#[test]
fn a_handler_may_end_the_program() {
    let said = LIBRARY.build("tests/exit.c").start("", &[]).end();
    assert!(said.contains("out of a handler"), "{said}");
}

#[test]
fn what_keeps_this_node_from_its_peers_is_said() {
    let name = format!("fm-health-{}", std::process::id());
    let built = LIBRARY.build("tests/health.c");
    let mut program = built.start("", &[&format!("shm:{name}")]);
    assert_eq!(program.line(), "open");
    let files = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|file| file.path());
    let its = files.filter(|file| file.to_string_lossy().contains(&name)).collect::<Vec<_>>();
    assert!(!its.is_empty());
    its.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    program.write("");
    let said = program.end();
    assert!(said.contains("of this node: ") && said.contains("removed"), "{said}");
}

#[test]
fn a_process_ends_with_its_last_thread() {
    assert_eq!(LIBRARY.build("tests/main_exit.c").start("", &[]).end(), "the last thread ends\n");
}

#[test]
fn a_process_ends_with_its_last_thread_though_a_node_is_open() {
    let program = LIBRARY.build("tests/last_thread.c");
    for how in ["exits", "cancelled"] {
        assert_eq!(program.start("", &[how]).end(), "open\n", "{how}");
    }
}

#[test]
fn a_thread_may_be_cancelled_and_a_handler_may_end_its_thread() {
    let said = LIBRARY.build("tests/cancel.c").start("", &[]).end();
    assert_eq!(said, "the process is still there\n");
}

#[test]
fn the_ends_of_a_wire_in_memory_come_and_go() {
    let said = LIBRARY.build("tests/again.c").start("", &[]).end();
    assert_eq!(said, "opened again\n");
}

#[test]
fn the_programs_files_with_numbers_of_the_library_are_left_alone() {
    let program = LIBRARY.build("tests/numbers.c");
    let shm = format!("shm:fm-numbers-{}", std::process::id());
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
    let lines = numbers_in_header(HEADER, "FM_E_");
    assert_eq!(lines.len(), Code::ALL.len());
    for ((name, number), code) in lines.into_iter().zip(Code::ALL) {
        // `NotInitialized` is FM_E_NOT_INITIALIZED.
        let variant = format!("{code:?}").to_uppercase();
        assert_eq!((name, number), (variant, code as i32));
        assert_eq!(Code::of(number), Some(code));
    }
}

#[test]
fn the_header_declares_what_the_library_has() {
    let calls = include_str!("../../src/calls.rs");
    let names = |text: &'static str, before: &'static str| -> Vec<&'static str> {
        let rests = text.lines().filter_map(move |line| line.split_once(before).map(|(_, rest)| rest));
        let mut names: Vec<_> = rests.filter_map(|rest| rest.split_once('(').map(|(name, _)| name)).collect();
        names.sort_unstable();
        names
    };
    let mut declared = names(HEADER, "int FM_");
    declared.extend(names(HEADER, "char *FM_"));
    declared.extend(names(HEADER, "int64_t FM_"));
    declared.sort_unstable();
    assert_eq!(declared, names(calls, "extern \"C-unwind\" fn FM_"));
    assert!(declared.len() >= 15, "{declared:?}");
}
