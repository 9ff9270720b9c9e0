//! Two processes, over each transport that needs no rights: the same programs, with another text for the transport.

use std::time::Duration;

use am_testing::c_program::{Program, Running};

use crate::LIBRARY;

/// Each transport, and a name that another run of these tests at the same time has not.
fn transports(test: &str) -> [String; 6] {
    let (udp, tcp) = ("udp:127.0.0.1:0".to_owned(), "tcp:127.0.0.1:0".to_owned());
    let shm = format!("shm:pvmam-{test}-{},members=8", std::process::id());
    let both = format!("{shm}-b+{udp}").replace(",members=8-b", "-b");
    [shm, udp, tcp, both, "udp".into(), String::new()]
}

/// Tasks 1 and 2, which pass each other their addresses. Returns what each has said behind its address.
fn two(program: &Program, transport: &str, more: &[&str]) -> [String; 2] {
    let mut both = ["1", "2"].map(|own| program.start(transport, &[&[own], more].concat()));
    let [first, second] = both.each_mut().map(Running::line);
    both[0].write(&format!("{second}\n"));
    both[1].write(&format!("{first}\n"));
    let [first, second] = both;
    // The second one's end fails only after the first one's.
    [first.end(), second.end()]
}

#[test]
fn the_example_runs_in_one_call_and_in_two() {
    let program = LIBRARY.build("examples/ping.c");
    for transport in transports("ping") {
        let says = ["1000 round trips without data, 11 of up to 1048576 bytes, 0 bytes wrong"];
        let said = program.start(&transport, &[]).end();
        assert!(says.iter().all(|part| said.contains(part)), "{transport}: {said}");
        let said = program.run_two([&transport, &transport]);
        assert!(says.iter().all(|part| said.contains(part)), "{transport}: {said}");
    }
}

#[test]
fn messages_of_all_kinds_and_lengths_arrive_once_and_in_order() {
    let program = LIBRARY.build("tests/c/every.c");
    for transport in transports("every") {
        for said in two(&program, &transport, &[]) {
            assert_eq!(said, "3000 counted, 2000 replied, 20 lengths, 0 wrong\n", "{transport}");
        }
    }
}

/// The order in which two tasks ask and accept is free, and one may compute or be stopped meanwhile.
#[test]
fn two_tasks_may_both_connect_and_one_may_be_late() {
    let program = LIBRARY.build("tests/c/crossed.c");
    for (how, count) in [("connect", 6), ("late", 3), ("stopped", 3)] {
        for transport in transports(how).iter().take(count) {
            for said in two(&program, transport, &[how]) {
                assert_eq!(said, "500 and 500\n", "{transport} {how}");
            }
        }
    }
}

/// Calls that wait for a task's messages to be accepted end at the interface's time. A request leaves at once, without a poll.
#[test]
fn a_task_that_does_not_poll_holds_up_no_end() {
    let program = LIBRARY.build("tests/c/stuck.c");
    for transport in transports("stuck") {
        for how in ["deallocate", "shutdown"] {
            assert_eq!(program.start(&transport, &[how]).end(), "not acknowledged\n", "{transport} {how}");
        }
    }
}

/// What a killed task has not handled comes back, and its endpoint may lead to another process.
#[test]
fn messages_for_a_killed_task_come_back() {
    let program = LIBRARY.build("tests/c/gone.c");
    for transport in transports("gone") {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            // The program finds the whole text, or no file.
            std::fs::write(path.with_extension("part"), format!("{text}\n")).unwrap();
            std::fs::rename(path.with_extension("part"), path).unwrap();
        };
        let mut asks = program.start(&transport, &["1", directory.path().to_str().unwrap()]);
        asks.line();
        let mut dies = program.start(&transport, &["2"]);
        write("first", &dies.line());
        assert_eq!(dies.line(), "stops");
        // Task 1 has no room any more when its sends fail.
        std::thread::sleep(Duration::from_millis(200));
        dies.kill();
        let said = asks.line();
        assert!(["all came back", "all but one came back"].contains(&said.as_str()), "{transport}: {said}");
        let mut serves = program.start(&transport, &["3"]);
        write("second", &serves.line());
        assert_eq!(asks.end(), "replied\n", "{transport}");
        serves.kill();
    }
}

#[test]
fn a_forked_child_leaves_its_parents_connections_alone() {
    let program = LIBRARY.build("tests/c/fork.c");
    for transport in transports("fork") {
        for said in two(&program, &transport, &[]) {
            assert!(said.contains("200 rounds"), "{transport}: {said}");
        }
    }
}
