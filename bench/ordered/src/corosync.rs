//! Corosync's closed process groups: a daemon for each member, and a small program beside it, which is led as a member of ours.
//!
//! Each member has its own mounts, processes and System V memory, because a host has one daemon. When its program ends, the kernel
//! kills the daemon.

use std::process::{Command, Stdio};

use am_measure::members::Place;

const SCRIPT: &str = include_str!("../../peers/corosync.sh");
const PROGRAM: &str = include_str!("../../peers/corosync.c");

/// Its version, if it can run there; else why not.
pub(crate) fn find(place: &Place) -> Result<String, String> {
    if !place.has_hosts() {
        return Err("a host has one daemon: give --hosts veth".to_owned());
    }
    let mut asked = Command::new("sh");
    asked.args(["-c", SCRIPT, "corosync", "version"]).stdin(Stdio::null());
    let output = asked.output().map_err(|why| why.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// A member of a group of those at these addresses.
pub(crate) fn command(addresses: &[String], index: usize, core: Option<usize>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--ipc", "sh", "-c", SCRIPT, "corosync"]);
    command.args(["member", &index.to_string(), PROGRAM]).args(addresses);
    command.env("AM_BENCH_CORE", core.map_or("none".to_owned(), |core| core.to_string()));
    command
}
