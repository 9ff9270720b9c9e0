//! C programs on one host.

use crate::LIBRARY;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use am_testing::c_program::{Program, Running};
use am_testing::directed_point::{Nodes, preload_library, start, start_with, table, udp_line};

/// The transport of processes on shared memory; each test has its own.
fn shm(test: &str) -> String {
    format!("shm:dp-{test}-{}", std::process::id())
}

fn two(program: &Program, nodes: Nodes<'_>, arguments: &[&str]) -> String {
    let one = start(program, 1, nodes, arguments);
    let said = start(program, 0, nodes, arguments).end();
    one.end();
    said
}

#[test]
fn the_papers_ping_pong_over_udp_and_shm() {
    let program = LIBRARY.build("examples/ping.c");
    let file = table(&[udp_line(0), udp_line(1)]);
    let name = shm("ping");
    for nodes in [Nodes::Table(file.path()), Nodes::Transport(&name)] {
        for (bytes, says) in [("1", "1000 round trips of 1 bytes"), ("200000", "50 round trips of 200000 bytes")] {
            let trips = says.split(' ').next().expect("a number");
            let said = two(&program, nodes, &[bytes, trips]);
            assert!(said.contains(says), "{said}");
        }
    }
}

#[test]
fn a_reader_is_told_that_its_message_was_too_long() {
    let program = LIBRARY.build("tests/c/too_long.c");
    let file = table(&[udp_line(0), udp_line(1)]);
    let name = shm("long");
    for nodes in [Nodes::Table(file.path()), Nodes::Transport(&name)] {
        assert_eq!(two(&program, nodes, &[]), "told\n");
    }
}

#[test]
fn every_call_of_a_process_alone() {
    assert_eq!(LIBRARY.build("tests/c/alone.c").start("udp", &[]).end(), "all as it should be\n");
}

/// A program means the same in C and in C++.
#[test]
fn each_language_has_the_header() {
    let said = LIBRARY.in_each_language("tests/c/both.c", "udp");
    assert!(said.len() > 3 && said[0].1.contains("the same in both"), "{said:?}");
    said.iter().for_each(|(language, text)| assert_eq!(*text, said[0].1, "{language}"));
}

#[test]
fn a_thread_may_be_cancelled() {
    assert_eq!(LIBRARY.build("tests/c/cancel.c").start("udp", &[]).end(), "the process is still there\n");
}

/// The library raises the soft limit, for the node and for endpoints.
#[test]
fn few_descriptors_are_no_limit_while_more_are_allowed() {
    let program = LIBRARY.build("tests/c/alone.c");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 5; exec \"$0\""]).arg(program.path());
    command.env("AM_TRANSPORT", "udp").env("LD_LIBRARY_PATH", program.libraries());
    assert_eq!(Running::of(&mut command).end(), "all as it should be\n");
}

#[test]
fn a_program_that_closes_every_descriptor_does_not_spin() {
    LIBRARY.build("tests/c/all_closed.c").start("udp", &[]).end();
}

#[test]
fn epoll_over_a_thousand_endpoints_and_a_tcp_socket() {
    let program = LIBRARY.build("tests/c/thousand.c");
    let file = table(&[udp_line(0), udp_line(1)]);
    let mut serves = start(&program, 0, Nodes::Table(file.path()), &[]);
    let port = serves.line();
    start(&program, 1, Nodes::Table(file.path()), &[&port]).end();
    serves.end();
}

#[test]
fn the_death_of_a_process_is_told_and_frees_its_dpid() {
    let program = LIBRARY.build("tests/c/death.c");
    let file = table(&[udp_line(0), udp_line(1)]);
    let name = shm("death");
    for nodes in [Nodes::Table(file.path()), Nodes::Transport(&name)] {
        let mut witness = start(&program, 0, nodes, &["witness"]);
        let victim = start(&program, 1, nodes, &["victim"]);
        assert_eq!(witness.line(), "ready");
        victim.kill();
        let heir = start(&program, 1, nodes, &["heir"]);
        assert_eq!(witness.line(), "told");
        witness.end();
        heir.end();
    }
}

#[test]
fn what_keeps_this_node_from_its_peers_is_said() {
    let (program, directory) = (LIBRARY.build("tests/c/health.c"), tempfile::tempdir().expect("a directory"));
    let name = format!("shm:health,dir={}", directory.path().display());
    let mut node = start(&program, 0, Nodes::Transport(&name), &[]);
    assert_eq!(node.line(), "open");
    let files: Vec<_> = std::fs::read_dir(directory.path()).expect("it is ours").flatten().collect();
    assert!(!files.is_empty());
    files.iter().for_each(|file| std::fs::remove_file(file.path()).expect("it is ours"));
    node.write("");
    let said = node.end();
    assert!(said.contains("of this node: ") && said.contains("removed"), "{said}");
}

#[test]
fn read_and_write_know_endpoints_with_the_preload_library() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = preload_library(LIBRARY, &directory);
    let program = LIBRARY.build("tests/c/files.c");
    let name = shm("files");
    let go = |nid| -> Running {
        start_with(&program, nid, Nodes::Transport(&name), &[], |command| _ = command.env("LD_PRELOAD", &library))
    };
    let both = [go(1), go(0)];
    both.into_iter().for_each(|process| assert_eq!(process.end(), "as files\n"));
}

#[test]
fn a_dpid_has_one_owner_among_the_processes_of_a_node() {
    let program = LIBRARY.build("tests/c/owners.c");
    let name = shm("owners");
    let mut first = start(&program, 3, Nodes::Transport(&name), &["first"]);
    assert_eq!(first.line(), "mine");
    assert_eq!(start(&program, 3, Nodes::Transport(&name), &["second"]).end(), "its\n");
    first.kill();
    let third = start(&program, 3, Nodes::Transport(&name), &["third"]);
    assert_eq!(third.end(), "mine\n");
}

#[test]
fn a_process_alone_reads_its_environment_again_after_a_failure() {
    LIBRARY.build("tests/c/owners.c").start("pigeon:1", &["later"]).end();
}

#[test]
fn a_wrong_environment_says_what_is_wrong() {
    let program = LIBRARY.build("tests/c/owners.c");
    let nothing = table(&[]);
    let missing = "/nowhere/nodes";
    let same = table(&["0 udp:127.0.0.1:9".to_owned(), "7 udp:127.0.0.1:9".to_owned()]);
    for (nid, nodes, says) in [
        ("0", Nodes::Table(nothing.path()), "the table has no node 0"),
        ("0", Nodes::Table(Path::new(missing)), "DP_NODES: /nowhere/nodes: No such file"),
        ("0", Nodes::Table(Path::new(missing)), "a line for each node"),
        ("0", Nodes::Table(same.path()), "line 2: node 7 has the address udp:127.0.0.1:9, which node 0 has in line 1"),
        ("x", Nodes::Transport("udp"), "DP_NID is `x`"),
        ("0", Nodes::Transport("pigeon:1"), "pigeon"),
    ] {
        let set = |command: &mut Command| _ = command.env("DP_NID", nid);
        let said = start_with(&program, 0, nodes, &["fails"], set).end();
        assert!(said.contains(says), "{said}");
    }
    let set = |command: &mut Command| _ = command.env("AM_TRANSPORT", OsStr::from_bytes(b"udp:\xff"));
    let said = start_with(&program, 0, Nodes::Transport(""), &["fails"], set).end();
    assert!(said.contains("AM_TRANSPORT is not UTF-8"), "{said}");
}
