//! A member's place in its group, and the node that it opens there.

use am_api::{Builder, Idle, Node};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::deploy;
use crate::drivers::facility;
use crate::error::Error;
use crate::plan::DriverOptions;
use crate::watch::Watch;

/// The longest message.
pub const LONG: usize = 1 << 20;

/// Where a member runs, and how it waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seat {
    /// Its place among the members. The first one founds the group.
    pub index: usize,
    /// The members of the group.
    pub members: usize,
    /// Its transport.
    pub on: String,
    /// How it is opened.
    pub how: DriverOptions,
    /// Its core, if it has one of its own.
    pub core: Option<usize>,
    /// Whether its thread spins while it waits.
    pub spins: bool,
}

impl Seat {
    /// A node that takes the longest message with what goes before it.
    ///
    /// # Errors
    /// The transport cannot be opened.
    pub fn node(&self, watch: &Watch) -> Result<Node, Error> {
        let (transport, _) = deploy::open(&self.on, self.how, watch)?;
        let idle = if self.spins { Idle::spinning() } else { Idle::sleeping() };
        let builder = Node::builder(&name(self.index)).idle(idle).max_message(2 * LONG);
        self.how.framing.fixed().into_iter().fold(builder, Builder::framing).open_on(transport).map_err(facility)
    }
}

/// The name of a member's node.
pub fn name(index: usize) -> String {
    format!("m{index}")
}

/// Nanoseconds of the clock that all processes of the machine share.
pub fn clock() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
