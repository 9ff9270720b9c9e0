//! The ways to start a task, its output, its traces, and the end of a machine.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::kills::{processes_of, wait_for_none};
use crate::machine::{Machine, Said};
use crate::programs::{TRANSPORTS, check_over_each};

#[test]
fn tasks_are_spawned_in_each_form() {
    check_over_each("forms", &["spawn"], "tasks were spawned in all ways", 300);
}

#[test]
fn the_lines_of_tasks_are_caught_between_their_messages() {
    check_over_each("forms", &["catch"], "all lines of 3 tasks were caught", 150);
    check_over_each("forms", &["output"], "the output of a task has come as messages", 50);
}

#[test]
fn a_task_tells_of_as_many_calls_as_without_the_library() {
    let line = |said: &Said| {
        let line = said.output.lines().find(|line| line.starts_with("a task has told of its calls")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{said:#?}"))
    };
    let machine = Machine::start();
    machine.compile("forms");
    let without = line(&machine.run(machine.command("forms").arg("trace"), ""));
    for transport in TRANSPORTS {
        let with = machine.run(machine.with_library("forms", transport).arg("trace"), "");
        assert_eq!(line(&with), without, "over {transport}: {with:#?}");
        // The traces of a task go as active messages, too.
        assert!(with.received() >= 1000, "over {transport}: {with:#?}");
    }
}

#[test]
fn a_task_halts_the_machine_and_no_process_is_left() {
    for transport in TRANSPORTS {
        let mut machine = Machine::start();
        machine.compile("forms");
        let said = machine.run(machine.with_library("forms", transport).arg("halt"), "");
        assert!(said.is_good && said.output.contains("the machine is halted"), "over {transport}: {said:#?}");
        assert!(said.received() >= 100, "over {transport}: {said:#?}");
        assert!(machine.has_ended(), "over {transport}: {said:#?}");
        wait_for_none(|| processes_of(machine.directory()));
        assert_eq!(machine.sockets(), Vec::<String>::new(), "over {transport}");
        assert_eq!(Machine::links(machine.directory()), Vec::<String>::new(), "over {transport}");
    }
}

/// A halt kills the tasks, so none of them leaves their shared memory.
#[test]
fn a_daemon_with_the_library_removes_the_shared_memory_of_killed_tasks() {
    for transport in ["shm", "shm+udp"] {
        let mut machine = Machine::start_with_library(transport);
        machine.compile("all");
        let mut command = machine.with_library("all", transport);
        command.args(["6", "100000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().expect("a program");
        let wait_for = |count| {
            let end = Instant::now() + Duration::from_secs(60);
            while processes_of(machine.directory()).len() != count || Machine::links(machine.directory()).is_empty() {
                assert!(Instant::now() < end, "{:?}", processes_of(machine.directory()));
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(6);
        thread::sleep(Duration::from_millis(300));
        running.kill().expect("a kill");
        running.wait().expect("its end");
        wait_for(5);
        machine.halt();
        assert!(machine.has_ended(), "over {transport}");
        assert_eq!(Machine::links(machine.directory()), Vec::<String>::new(), "over {transport}");
        wait_for_none(|| processes_of(machine.directory()));
    }
}
