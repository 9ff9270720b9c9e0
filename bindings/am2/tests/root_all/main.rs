//! C programs on four hosts, started by am-run and by Open MPI's mpirun. Needs root.

use std::process::Command;

use am_testing::c_program::{Library, run};
use am_testing::lab::{ADDRESSES, Lab};

/// The library under test.
const LIBRARY: Library = Library { name: "am2", root: env!("CARGO_MANIFEST_DIR") };

/// All processes had their answers.
fn check(said: &str, processes: usize) {
    for rank in 0..processes {
        assert!(said.contains(&format!("rank {rank} of {processes}: 1002 answers, 0 wrong")), "{said}");
    }
}

fn over(lab: &Lab, slots: usize, transport: &str) {
    check(&said_over(lab, slots, transport, "examples/ping.c"), ADDRESSES.len() * slots);
}

/// What the processes of a job said.
fn said_over(lab: &Lab, slots: usize, transport: &str, source: &str) -> String {
    let program = LIBRARY.build(source);
    let libraries = format!("LD_LIBRARY_PATH={}", program.libraries().display());
    let hosts = ADDRESSES.map(|address| format!("{address}:{slots}")).join(",");
    let mut command = Command::new(LIBRARY.beside("am-run"));
    command.args(["-H", &hosts, "--rsh", &lab.shell(), "--transport", transport, "-x", &libraries]);
    run(command.arg(program.path()))
}

/// Far more frames than can leave at once.
fn long_over(transport: &str) {
    let said = said_over(&Lab::new(), 1, transport, "tests/c/job.c");
    assert_eq!(said.matches("6 transfers arrived").count(), ADDRESSES.len(), "{said}");
}

#[test]
fn long_replies_over_udp() {
    long_over("udp");
}

#[test]
fn long_replies_over_xdp() {
    long_over("xdp:am0");
}

/// Mediums longer than a frame, in a flood of all kinds of messages.
fn flood_over(lab: &Lab, slots: usize, transport: &str) {
    let said = said_over(lab, slots, transport, "tests/c/mixed.c");
    assert_eq!(said.matches("600 answers").count(), ADDRESSES.len() * slots, "{said}");
}

#[test]
fn a_flood_over_xdp() {
    flood_over(&Lab::new(), 1, "xdp:am0");
}

#[test]
fn a_flood_through_a_daemon_on_each_host() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    flood_over(&lab, 2, &format!("amd:{}", lab.socket().display()));
}

#[test]
fn by_am_run_over_udp() {
    over(&Lab::new(), 1, "udp");
}

#[test]
fn by_am_run_over_xdp() {
    over(&Lab::new(), 1, "xdp:am0");
}

/// Two processes on each host share its interface.
#[test]
fn by_am_run_through_a_daemon_on_each_host() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    over(&lab, 2, &format!("amd:{}", lab.socket().display()));
}

#[test]
fn by_mpirun() {
    let (lab, program) = (Lab::new(), LIBRARY.build("examples/ping.c"));
    let libraries = program.libraries().display();
    let text = format!("env LD_LIBRARY_PATH={libraries} {}", program.path().display());
    check(&run(&mut lab.mpirun(&text)), ADDRESSES.len());
}
