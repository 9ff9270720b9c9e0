//! What a room has, and where in it.

use std::path::Path;
use std::process::Command;

use super::{Network, Order, Run};
use crate::side::Side;

/// Where everything that they write goes: an empty place in memory.
pub(crate) const PLACE: &str = "/tmp";
/// What each side is called in the room.
pub(crate) const HOSTS: [&str; 2] = ["alpha", "beta"];
/// This program, wherever it is outside.
pub(crate) const OURSELVES: &str = "am-bench";

/// A file of the room.
pub(crate) fn at(name: &str) -> String {
    Path::new(PLACE).join(name).display().to_string()
}

/// Where a side's network namespace is found.
pub(crate) fn network(network: Network) -> String {
    at(if network == Network::Near { "near.net" } else { "far.net" })
}

/// The program as it is started: entered into its network and pinned by ourselves.
pub(super) fn command(run: &Run, order: &Order) -> Command {
    let core = run.core.and_then(|side| order.cores[usize::from(side == Side::Far)]);
    let mut command = Command::new(at(OURSELVES));
    let network = if run.network == Network::Near { "near" } else { "far" };
    command.args(["room", "enter", network, &core.map_or("none".to_owned(), |core| core.to_string())]).args(&run.words);
    let cores = order.cores.map(|core| core.map_or("none".to_owned(), |core| core.to_string()));
    command.env("HOME", PLACE).env("TMPDIR", PLACE).env("AM_BENCH_CORES", cores.join(","));
    command.envs(run.variables.iter().map(|(name, value)| (name, value))).current_dir(PLACE);
    command
}
