//! Tasks that are killed at random moments, while all send to all.

use std::env;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::programs::TRANSPORTS;

/// The variable that asks for more kills.
const KILLS: &str = "AM_PVM_KILLS";
/// Unless it says otherwise.
const FEW: u32 = 50;

/// Longer than a kill takes, with the start of another task.
const SLOW: Duration = Duration::from_millis(500);

/// The processes whose program is in this directory, and that are not dead.
pub(crate) fn processes_of(directory: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let programs = all.filter_map(|process| fs::read_link(process.path().join("exe")).ok());
    let own = programs.filter(|program| program.starts_with(directory));
    own.map(|program| program.display().to_string()).collect()
}

/// Wait until nothing is left of this.
pub(crate) fn wait_for_none(left: impl Fn() -> Vec<String>) {
    let end = Instant::now() + Duration::from_secs(60);
    while !left().is_empty() {
        assert!(Instant::now() < end, "{:?} is left", left());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn others_go_on_when_a_task_is_killed_and_nothing_of_it_is_left() {
    let count = env::var(KILLS).map_or(FEW, |kills| kills.parse().expect("a number"));
    for transport in TRANSPORTS {
        let machine = Machine::start();
        machine.compile("kills");
        let began = Instant::now();
        let mut command = machine.with_library("kills", transport);
        let said = machine.run_for(command.arg(count.to_string()), "", Duration::from_secs(60) + SLOW * count);
        let wanted = format!("{count} kills, and all others have gone on");
        assert!(said.is_good && said.output.contains(&wanted), "over {transport}: {said:#?}");
        assert!(!said.log.contains("FAILED"), "over {transport}: {said:#?}");
        assert!(said.received() >= 20 * u64::from(count), "over {transport}: {said:#?}");
        println!("{count} kills over {transport}: {} active messages, {:?}", said.received(), began.elapsed());
        wait_for_none(|| processes_of(machine.directory()));
        wait_for_none(|| Machine::links(machine.directory()));
    }
}
