//! C programs: two processes over each transport that needs no rights, and one alone.

use crate::LIBRARY;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use am_testing::c_program::{Program, Running};

/// A transport that no other test has at the same time.
fn transports() -> [[String; 2]; 4] {
    let shm = format!("shm:am2-{}-{:?}", std::process::id(), std::thread::current().id());
    let shm: String = shm.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ':' || *c == '-').collect();
    let [udp, tcp] = ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"].map(str::to_owned);
    let both = format!("{shm}+{udp}");
    [[udp.clone(), udp], [tcp.clone(), tcp], [shm.clone(), shm], [both.clone(), both]]
}

fn over_each(source: &str, wanted: &str) {
    let program = LIBRARY.build(source);
    for [first, second] in transports() {
        let said = program.run_two([&first, &second]);
        assert!(said.contains(wanted), "{first}: {said}");
    }
}

/// Each call with 0 to 16 arguments, to the other process and to the own one.
#[test]
fn every_message_call() {
    over_each("tests/c/every.c", &format!("{} answers", 2 * 17 * 7));
}

/// Of every length, with few arguments and with all; both processes ask at once.
#[test]
fn mediums_longer_than_a_frame() {
    over_each("tests/c/medium.c", "all mediums arrived");
}

#[test]
fn the_programs_files_with_numbers_of_the_library_are_left_alone() {
    let program = LIBRARY.build("tests/c/numbers.c");
    for [transport, _] in transports() {
        for how in ["dup", "close"] {
            for kind in ["file", "pipe", "event"] {
                let said = program.start(&transport, &[how, kind]).end();
                assert_eq!(said, "mine are as they were\n", "{transport} {how} {kind}");
            }
        }
    }
}

/// A daemon that joins the programs of this machine, until this is dropped.
struct Daemon(Child, TempDir);

impl Daemon {
    fn start() -> Daemon {
        let (amd, place) = (LIBRARY.beside("amd"), TempDir::new());
        assert!(amd.exists(), "no {}: cargo build -p am-daemon", amd.display());
        let place = place.expect("a directory");
        let socket = place.path().join("amd.sock");
        let child = Command::new(amd).args(["run", "local", "--socket"]).arg(&socket).spawn().expect("a daemon");
        let begin = Instant::now();
        let daemon = Daemon(child, place);
        while !socket.exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the daemon has no socket");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }

    fn transport(&self) -> String {
        format!("amd:{}/amd.sock", self.1.path().display())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn programs_share_a_daemon() {
    let daemon = Daemon::start();
    let transport = daemon.transport();
    for (source, wanted) in [
        ("every", "238 answers"),
        ("medium", "all mediums arrived"),
        ("sizes", "lengths arrived"),
        ("long", "all sizes arrived"),
        ("errors", "all came back"),
        ("events", "4 threads"),
        ("wake", "woken for each"),
    ] {
        let said = LIBRARY.build(&format!("tests/c/{source}.c")).run_two([&transport, &transport]);
        assert!(said.contains(wanted), "{source}: {said}");
    }
}

#[test]
fn a_thread_may_be_cancelled_and_a_handler_may_end_its_thread() {
    let said = LIBRARY.build("tests/c/cancel.c").start("udp:127.0.0.1:0", &[]).end();
    assert_eq!(said, "the process is still there\n");
}

#[test]
fn an_exception_out_of_a_handler_ends_the_program_and_says_so() {
    let program = LIBRARY.build("tests/c/thrown.cc");
    assert_eq!(program.start("shm", &[]).end(), "all stayed in their handlers\n");
    for how in ["out", "back"] {
        let (code, errors) = program.start("shm", &[how]).fail();
        assert!(code.is_none() && errors.contains("a C++ exception has left a handler"), "{how}: {code:?} {errors}");
    }
}

#[test]
fn a_process_ends_with_its_last_thread_though_its_node_is_open() {
    let program = LIBRARY.build("tests/c/last_thread.c");
    for how in ["exits", "cancelled"] {
        assert_eq!(program.start("udp:127.0.0.1:0", &[how]).end(), "open\n", "{how}");
    }
}

/// The names of Berkeley's header, in a program that uses them.
#[test]
fn old_names() {
    over_each("tests/c/old.c", "all by their old names");
}

#[test]
fn the_table_of_connections_ends_where_the_header_says() {
    let said = LIBRARY.build("tests/c/full.c").start("shm", &[]).end();
    assert!(said.contains("16383 connections"), "{said}");
}

#[test]
fn what_is_not_delivered_comes_back() {
    over_each("tests/c/errors.c", "all came back");
}

#[test]
fn threads_share_and_wait() {
    over_each("tests/c/events.c", "4 threads");
}

#[test]
fn a_sleeping_thread_is_woken_by_calls_of_others() {
    over_each("tests/c/wake.c", "woken for each");
}

#[test]
fn a_sleeping_thread_is_woken_by_another_that_sleeps() {
    over_each("tests/c/sleepers.c", "300 answers");
}

#[test]
fn a_forked_child_leaves_its_parents_node_alone() {
    over_each("tests/c/fork.c", "200 answers");
}

#[test]
fn misuse_is_an_error() {
    let program = LIBRARY.build("tests/c/misuse.c");
    for transport in ["udp:127.0.0.1:0", "shm", "sim:7"] {
        let said = program.start(transport, &[]).end();
        assert!(said.contains("all as it should be"), "{transport}: {said}");
    }
}

#[test]
fn the_example_runs_alone() {
    let said = LIBRARY.build("examples/ping.c").start("udp", &[]).end();
    assert!(said.contains("rank 0 of 1: 1002 answers, 0 wrong"), "{said}");
}

#[test]
fn a_transport_that_cannot_be_opened_is_named() {
    let program = LIBRARY.build("examples/ping.c");
    let mut child = program.start("carrier-pigeon:9", &[]);
    let (code, errors) = child.fail();
    assert!(code == Some(1) && errors.contains("carrier-pigeon"), "{code:?} {errors}");
}

/// Up to the longest transfer; and the side that answers keeps few of them at once.
#[test]
fn long_replies_arrive_in_bounded_memory() {
    over_each("tests/c/long.c", "all sizes arrived");
}

#[test]
fn transfers_of_every_length() {
    over_each("tests/c/sizes.c", "lengths arrived");
}

#[test]
fn a_request_to_oneself_waits_for_room() {
    let said = LIBRARY.build("tests/c/own.c").start("shm", &[]).end();
    assert!(said.contains("all to itself"), "{said}");
}

#[test]
fn what_was_sent_arrives_after_the_endpoint_is_freed() {
    let (program, directory) = (LIBRARY.build("tests/c/leave.c"), TempDir::new().expect("a directory"));
    for (at, [first, second]) in transports().into_iter().enumerate() {
        let done = directory.path().join(at.to_string()).display().to_string();
        let said = program.run_two_with([&first, &second], &[&done]);
        assert!(said.contains("nothing lost"), "{first}: {said}");
    }
}

#[test]
fn a_get_whose_peer_dies_comes_back() {
    let program = LIBRARY.build("tests/c/gone.c");
    for [first, second] in
        transports().into_iter().filter(|[first, _]| first.starts_with("shm") && !first.contains('+'))
    {
        let said = program.run_two([&first, &second]);
        assert!(said.contains("each get has an outcome"), "{first}: {said}");
    }
}

#[test]
fn what_keeps_this_node_from_its_peers_is_said() {
    let (program, directory) = (LIBRARY.build("tests/c/health.c"), TempDir::new().expect("a directory"));
    let place = directory.path().display().to_string();
    let transport = format!("shm:health,dir={place}");
    let said = program.run_two_with([&transport, &transport], &[&place]);
    assert!(said.contains("Unreachable; of this node: ") && said.contains("removed"), "{said}");
}

/// A job of three processes, started by the launcher, which is another package's. Returns what they said.
fn job(program: &Program, transport: &str, arguments: &[&str]) -> String {
    let launcher = LIBRARY.beside("am-run");
    assert!(launcher.exists(), "no {}: cargo build -p am-run", launcher.display());
    let mut command = Command::new(&launcher);
    command.args(["-n", "3", "--transport", transport]).env("LD_LIBRARY_PATH", program.libraries());
    Running::of(command.arg(program.path()).args(arguments)).end()
}

/// A launcher gives each process its place once.
#[test]
fn a_process_of_a_job_begins_again() {
    let program = LIBRARY.build("tests/c/again.c");
    for transport in ["shm", "udp", "tcp", "shm+udp"] {
        let said = job(&program, transport, &[]);
        assert_eq!(said.matches("3 rounds of 100 answers").count(), 3, "{transport}: {said}");
    }
}

/// Requests wait for replies of all kinds to leave, and those for what the requests hold.
#[test]
fn a_flood_of_all_kinds_of_messages_is_answered() {
    let program = LIBRARY.build("tests/c/mixed.c");
    for transport in ["shm", "udp", "tcp", "shm+udp"] {
        for how in ["polls", "sleeps"] {
            let said = job(&program, transport, &[how]);
            assert_eq!(said.matches("600 answers").count(), 3, "{transport} {how}: {said}");
        }
    }
}

#[test]
fn a_handler_may_end_the_job_while_others_wait() {
    let program = LIBRARY.build("tests/c/end_job.c");
    for transport in ["shm", "udp"] {
        let said = job(&program, transport, &[]);
        assert_eq!(said.matches("exchanged").count(), 3, "{transport}: {said}");
    }
}

#[test]
fn a_peer_that_takes_nothing_keeps_back_no_other() {
    let (program, directory) = (LIBRARY.build("tests/c/apart.c"), TempDir::new().expect("a directory"));
    for transport in ["shm", "udp", "tcp"] {
        let done = directory.path().join(transport).display().to_string();
        let said = job(&program, transport, &[&done]);
        assert_eq!(said.matches("each on its own").count(), 3, "{transport}: {said}");
    }
}
