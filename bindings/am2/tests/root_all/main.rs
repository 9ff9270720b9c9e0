//! C programs on four hosts, started by am-run and by Open MPI's mpirun. Needs root.

#[path = "../../../../am-run/tests/root_all/lab.rs"]
mod lab;
#[path = "../../../test-support/program.rs"]
mod program;

use std::path::PathBuf;
use std::process::Command;

use lab::{ADDRESSES, Lab};
use program::{Program, library, run};

/// The library under test.
const LIBRARY: &str = "am2";

/// All four processes had their answers.
fn check(said: &str) {
    for rank in 0..ADDRESSES.len() {
        assert!(said.contains(&format!("rank {rank} of 4: 1002 answers, 0 wrong")), "{said}");
    }
}

/// The launcher, which is another package's.
fn am_run() -> PathBuf {
    let launcher = library().ancestors().nth(2).expect("cargo's directory").join("am-run");
    assert!(launcher.exists(), "no {}: cargo build -p am-run", launcher.display());
    launcher
}

fn over(transport: &str) {
    let (lab, program) = (Lab::new(), Program::build("examples/ping.c"));
    let libraries = format!("LD_LIBRARY_PATH={}", program.libraries().display());
    let mut command = Command::new(am_run());
    command.args(["-H", &ADDRESSES.join(","), "--rsh", &lab.shell(), "--transport", transport, "-x", &libraries]);
    check(&run(command.arg(program.path())));
}

#[test]
fn by_am_run_over_udp() {
    over("udp");
}

#[test]
fn by_am_run_over_xdp() {
    over("xdp:am0");
}

#[test]
fn by_mpirun() {
    let (lab, program) = (Lab::new(), Program::build("examples/ping.c"));
    let libraries = program.libraries().display();
    let text = format!("env LD_LIBRARY_PATH={libraries} {}", program.path().display());
    check(&run(&mut lab.mpirun(&text)));
}
