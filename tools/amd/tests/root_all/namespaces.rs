//! A daemon in a container: its programs are outside of its PID namespace.

use std::process::{Command, Stdio};

use am_vnic::VnicOptions;

use crate::common::{is_served, list, until};
use crate::users::{Place, Process};

#[test]
fn a_program_outside_of_the_daemons_pid_namespace_attaches() {
    let place = Place::new();
    let socket = place.path("amd.sock");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(place.path("amd")).args(["run", "local", "--socket"]);
    let _daemon = Process(command.arg(&socket).stdout(Stdio::null()).spawn().unwrap());
    until("it serves", || is_served(&socket));
    let _program = am_vnic::open(&VnicOptions::new(&socket)).unwrap();
    let port = &list(&socket).ports[0];
    assert_eq!((port.pid, port.is_expected), (0, false));
    let shown = Command::new(place.path("amd")).args(["list", "--socket"]).arg(&socket).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("(unknown)"), "{shown:?}");
}
