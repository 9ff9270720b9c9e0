//! The transports that need more than a name: TCP between two ports, and a daemon that all tasks of a host share.

use am_testing::amd::common::{Place, Running};

use crate::kills::{processes_of, wait_for_none};
use crate::machine::Machine;

/// A program, its arguments, what it says, and how many active messages that takes.
type Program = (&'static str, &'static [&'static str], &'static str, u64);

/// The last one has others that are killed. A pair agrees later over `amd` than over other transports, so the children that end
/// have 100 messages there and back first: their last ones are to go as active messages.
const PROGRAMS: [Program; 5] = [
    ("order", &["2000"], "2000 messages in their order", 2500),
    ("all", &["7", "60"], "7 tasks, 60 rounds: all contents are right", 800),
    ("ending", &["kill", "6", "100"], "6 tasks have ended, with whole messages", 100),
    ("ending", &["leave", "3", "100"], "3 tasks have ended, with whole messages", 150),
    ("kills", &["20"], "20 kills, and all others have gone on", 400),
];

fn check_all(programs: &[Program], transport: &str, name: &str) {
    for &(program, arguments, wanted, at_least) in programs {
        let machine = Machine::start();
        machine.compile(program);
        let said = machine.run(machine.with_library(program, transport).args(arguments), "");
        assert!(said.is_good && said.output.contains(wanted), "{program} {arguments:?} over {transport}: {said:#?}");
        assert!(said.received() >= at_least && said.errors.contains(name), "{program} over {transport}: {said:#?}");
        wait_for_none(|| processes_of(machine.directory()));
    }
}

#[test]
fn tasks_reach_each_other_by_tcp() {
    check_all(&PROGRAMS, "tcp", "over tcp:");
    check_all(&PROGRAMS, "shm+tcp", "+tcp:");
}

#[test]
fn tasks_share_a_daemon() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    check_all(&PROGRAMS, &format!("amd:{}", place.socket().display()), "over amd:");
}
