//! Programs that close descriptors of the library by number, and read or interrupt what is the library's.

use crate::LIBRARY;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use am_testing::c_program::{Program, Running};
use am_testing::directed_point::{Nodes, preload_library, start_with};

/// Transports with other descriptors each.
fn transports(test: &str) -> [String; 4] {
    ["udp:127.0.0.1:0".into(), "tcp:127.0.0.1:0".into(), format!("shm:{test}-{}", std::process::id()), "sim:1".into()]
}

/// Alone on a transport. The tests run side by side, and processes of one NID on a transport of one name share their DPIDs.
fn start(program: &Program, transport: &str, arguments: &[&str], preload: Option<&Path>) -> Running {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let nid = NEXT.fetch_add(1, Ordering::Relaxed);
    start_with(program, nid, Nodes::Transport(transport), arguments, |command| {
        preload.into_iter().for_each(|library| _ = command.env("LD_PRELOAD", library));
    })
}

#[test]
fn the_programs_files_with_numbers_of_the_library_are_left_alone() {
    let program = LIBRARY.build("tests/c/numbers.c");
    for transport in transports("dp-numbers") {
        for how in ["dup", "close", "one"] {
            for kind in ["file", "pipe", "event"] {
                let said = start(&program, &transport, &[how, kind], None).end();
                assert_eq!(said, "mine are as they were\n", "{transport} {how} {kind}");
            }
        }
    }
}

/// The C library writes at the exit, after this library's end.
#[test]
fn what_a_program_writes_at_its_exit_is_not_lost() {
    let (program, directory) = (LIBRARY.build("tests/c/at_exit.c"), tempfile::tempdir().expect("a directory"));
    let library = preload_library(LIBRARY, &directory);
    for transport in transports("dp-exit") {
        for preload in [None, Some(&*library)] {
            let file = directory.path().join("file");
            start(&program, &transport, &[file.to_str().expect("a path")], preload).end();
            for number in 0..8 {
                let text = std::fs::read_to_string(directory.path().join(format!("file.{number}"))).expect("a file");
                assert_eq!(text, format!("result {number}\n"), "{transport}");
            }
        }
    }
}

#[test]
fn the_preload_library_leaves_the_librarys_descriptors_open() {
    let (program, directory) = (LIBRARY.build("tests/c/spared.c"), tempfile::tempdir().expect("a directory"));
    let library = preload_library(LIBRARY, &directory);
    for transport in transports("dp-spared") {
        assert_eq!(start(&program, &transport, &[], Some(&library)).end(), "spared\n", "{transport}");
    }
}

#[test]
fn a_read_of_the_descriptor_takes_no_message() {
    let program = LIBRARY.build("tests/c/copy.c");
    for transport in transports("dp-copy") {
        assert_eq!(start(&program, &transport, &[], None).end(), "nothing was taken\n", "{transport}");
    }
}

#[test]
fn each_signal_ends_a_write_that_waits() {
    let program = LIBRARY.build("tests/c/signals.c");
    assert_eq!(start(&program, "udp:127.0.0.1:0", &[], None).end(), "each ended a write\n");
}
