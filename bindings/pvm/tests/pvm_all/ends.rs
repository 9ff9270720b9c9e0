//! What a task meets after another one, or the daemon, has ended.

use crate::machine::Machine;
use crate::programs::{TRANSPORTS, check, known};

#[test]
fn a_send_to_a_task_that_has_just_ended_does_not_wait() {
    for transport in TRANSPORTS {
        for (way, at_least) in [("kill", 7), ("exit", 1)] {
            let said = check("late", &[way], transport, "12 tasks were sent to after their end", 200);
            // Most of those that were killed had agreed, and one other.
            let reached = said.errors.lines().find_map(|line| line.split_once(" reached, over ")?.0.rsplit(' ').nth(1));
            let reached = reached.and_then(|count| count.parse::<u32>().ok());
            assert!(reached.is_some_and(|count| count >= at_least), "{way} over {transport}: {said:#?}");
            assert!(known(&said).is_some_and(|[tasks, ..]| tasks == 0), "{way} over {transport}: {said:#?}");
        }
    }
}

/// As the first one, `pvm_exit` is not among them: it waits for ever in PVM's own library, too.
const CALLS: [&str; 11] =
    ["recv", "send", "psend", "mcast", "trecv", "nrecv", "probe", "notify", "pstat", "tasks", "spawn"];

#[test]
fn calls_after_the_end_of_the_daemon_return_the_error_of_pvm() {
    let run = |call: &str, transport: Option<&str>| {
        let machine = Machine::start();
        machine.compile("orphan");
        let mut command = match transport {
            Some(transport) => machine.with_library("orphan", transport),
            None => machine.command("orphan"),
        };
        machine.run(command.arg(call), "")
    };
    for (nth, call) in CALLS.into_iter().enumerate() {
        let without = run(call, None);
        assert!(without.is_good && without.output.contains("no call has waited"), "{call}: {without:#?}");
        // A wait and a send over each of them.
        let transports = if nth < 2 { &TRANSPORTS[..] } else { &TRANSPORTS[2..] };
        for transport in transports {
            let with = run(call, Some(transport));
            assert!(with.is_good && with.output == without.output, "{call} over {transport}: {with:#?}\n{without:#?}");
        }
    }
}

#[test]
fn a_number_that_is_given_again_is_another_task() {
    for transport in ["shm+udp", "udp"] {
        let said = check("reuse", &[], transport, "2 numbers were given again", 100);
        assert!(!said.log.contains("FAILED"), "over {transport}: {said:#?}");
    }
}
