//! Programs that dp-graph starts.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::program::{Program, library};

/// A launcher, which is another package's.
pub fn beside(name: &str) -> PathBuf {
    let launcher = library().ancestors().nth(2).expect("cargo's directory").join(name);
    assert!(launcher.exists(), "no {}: cargo build -p {name}", launcher.display());
    launcher
}

/// `dp-graph run` with what the program's library needs.
pub fn dp_graph(program: &Program) -> Command {
    beside("am-run");
    let mut command = Command::new(beside("dp-graph"));
    command.args(["run", "-x", &format!("LD_LIBRARY_PATH={}", program.libraries().display())]);
    command.stdin(Stdio::null());
    command
}

/// Run it to its end, which has to be a good one. Returns its standard output and its standard error.
pub fn run(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let [output, errors] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{status}\n{output}{errors}");
    (output, errors)
}
