//! A task that does more than PVM: children, signals, long computations.

use std::env;
use std::time::Duration;

use crate::machine::Machine;
use crate::programs::{TRANSPORTS, check, check_over_each};

/// The variable that asks for a longer computation, in seconds.
const SECONDS: &str = "AM_PVM_SECONDS";
/// Unless it says otherwise.
const FEW: u64 = 12;

#[test]
fn a_task_has_children_of_its_own() {
    check_over_each("alone", &["fork"], "a task with 30 children has got all its messages", 100);
}

#[test]
fn a_task_has_signals_of_its_own() {
    check_over_each("alone", &["signals"], "a task with signals of its own has got 300 answers", 600);
}

#[test]
fn a_task_that_may_open_nothing_waits_and_receives() {
    check_over_each("alone", &["limit"], "a task that may open nothing has got 300 answers", 600);
}

#[test]
fn a_task_that_replaces_the_descriptors_of_the_library_gets_an_error() {
    for transport in TRANSPORTS {
        let wanted = "a task without the descriptors of the library has got an error";
        let said = check("alone", &["lose"], transport, wanted, 10);
        assert!(said.errors.contains("has closed or replaced descriptors"), "over {transport}: {said:#?}");
    }
}

#[test]
fn a_thread_that_waits_may_be_cancelled() {
    check_over_each("alone", &["cancel"], "a task with threads that were cancelled has got 300 answers", 600);
}

#[test]
fn a_handler_may_end_its_thread_and_not_throw() {
    let machine = Machine::start();
    machine.compile_cpp("thrown");
    for transport in TRANSPORTS {
        let said = machine.run(machine.with_library("thrown", transport).arg("exit"), "");
        assert!(
            said.is_good && said.output.contains("has ended a thread has got 50 answers"),
            "over {transport}: {said:#?}"
        );
        let said = machine.run(&mut machine.with_library("thrown", transport), "");
        assert!(
            !said.is_good && said.errors.contains("a C++ exception has left a handler"),
            "over {transport}: {said:#?}"
        );
    }
}

#[test]
fn a_forked_child_that_calls_pvm_hears_what_it_does_not_get() {
    let said = check("alone", &["child"], "shm+udp", "a child has called PVM", 10);
    assert_eq!(said.errors.matches("a forked child of a task calls PVM").count(), 1, "{said:#?}");
    let said = check("alone", &["fork"], "shm+udp", "a task with 30 children", 100);
    assert!(!said.errors.contains("calls PVM"), "{said:#?}");
}

#[test]
fn a_task_that_computes_for_long_gets_all_messages() {
    let seconds: u64 = env::var(SECONDS).map_or(FEW, |seconds| seconds.parse().expect("a number"));
    let wanted = format!("a task has computed for {seconds} s, and has got all messages");
    for transport in ["shm+udp", "udp"] {
        let machine = Machine::start();
        machine.compile("alone");
        let mut command = machine.with_library("alone", transport);
        command.args(["compute", &seconds.to_string()]);
        let said = machine.run_for(&mut command, "", Duration::from_secs(60 + 2 * seconds));
        assert!(said.is_good && said.output.contains(&wanted), "over {transport}: {said:#?}");
        assert!(said.received() >= 100 * seconds, "over {transport}: {said:#?}");
    }
}

#[test]
fn tasks_go_on_when_the_files_of_their_memory_are_removed() {
    for transport in TRANSPORTS {
        let machine = Machine::start();
        machine.compile("removed");
        let mut command = machine.with_library("removed", transport);
        let said = machine.run(command.arg(Machine::name_of_links(machine.directory())), "");
        let wanted = "tasks without the files of their memory have got all answers";
        assert!(said.is_good && said.output.contains(wanted), "over {transport}: {said:#?}");
        assert!(said.received() >= 300, "over {transport}: {said:#?}");
    }
}
