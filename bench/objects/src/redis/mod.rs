//! Redis: a server on each member's host, the first one the primary, the others its replicas; and the client, a process on the last
//! member's host. A write is a `SET` and a `WAIT` for as many replicas as make a majority with the primary, in one segment. Servers and
//! client run on any core: pinned as our members are, they take longer.

mod client;
mod resp;

use std::process::{Command, Stdio};

use am_bench_ordered::Setup;
use am_measure::Error;
use am_measure::deploy::Group;

pub(crate) use client::Client;

const SCRIPT: &str = include_str!("../../../peers/redis.sh");
/// Where servers listen.
const PORT: u16 = 0x88bb;

fn script() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "redis"]);
    command
}

/// Its version, or why it cannot run.
pub(crate) fn find() -> Result<String, String> {
    let output = script().arg("version").stdin(Stdio::null()).output().map_err(|why| why.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// The addresses of this many servers, the primary's first.
pub(crate) fn addresses(setup: &Setup<'_>, members: usize) -> Vec<String> {
    setup.place.addresses[..members].iter().map(|address| format!("{address}:{PORT}")).collect()
}

/// Start a server on a member's host: in memory, and replicated without files.
pub(crate) fn start(setup: &Setup<'_>, index: usize) -> Result<Group, Error> {
    let (place, port) = (setup.place, PORT.to_string());
    let addresses = &place.addresses;
    let mut command = script();
    command.args(["serve", "--port", &port, "--bind", &addresses[index], "--protected-mode", "no"]);
    command.args(["--save", "", "--appendonly", "no", "--repl-diskless-sync", "yes"]);
    command.args(["--repl-diskless-sync-delay", "0", "--repl-diskless-load", "on-empty-db"]);
    if index > 0 {
        command.args(["--replicaof", &format!("{} {port}", addresses[0])]);
    }
    command.stdin(Stdio::piped());
    place.at(index, || Group::start(&mut command, "starting redis-server"))?
}
