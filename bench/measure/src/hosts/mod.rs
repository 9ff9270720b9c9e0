//! Many hosts on one switch, each with a node of ours: what each of them does, and where they run.
//!
//! ```text
//!   contention, permute ─ plans ─▶ Arena::run ─▶ one Tally for each host
//!                                    │
//!                     bridge: threads in network namespaces, a Linux bridge, AF_XDP
//!                 simulation: one thread, netdev-sim, virtual time
//! ```
//!
//! The same `Host` runs in both: it answers requests, and sends some to its targets.
//!
//! Read first: [`HostPlan`], then `host`.

mod bridge;
mod host;
mod simulation;
pub mod world;

use std::sync::Arc;
use std::time::Duration;

use am_api::GroupMember;

pub use bridge::Bridged;
pub use host::WORD_BYTES;
pub use simulation::Simulation;

use crate::error::Error;
use crate::loops::latency::{RoundTrips, round_trips};
use crate::plan::Amount;

/// What a host does.
#[derive(Clone, Debug, Default)]
pub struct HostPlan {
    /// The name of its node.
    pub name: String,
    /// Its endpoints. It answers their requests. With several it polls them as a set; with one it also sends.
    pub endpoints: Vec<String>,
    /// Node and endpoint of each peer that it sends to.
    pub targets: Vec<(String, String)>,
    /// Bytes of a request: words and payload.
    pub size: usize,
    /// The most requests in flight to each target. Credits may allow less.
    pub outstanding: u32,
    /// The port of the switch where it is.
    pub port: usize,
    /// How it waits for messages.
    pub wait: Wait,
    /// Its place in a group. Its node has the member's name.
    pub member: Option<Arc<GroupMember>>,
}

/// What a host does while it has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It yields its core for a moment, then sleeps.
    #[default]
    Yield,
    /// It polls, on a core of its own.
    Poll,
    /// Its thread sleeps at once.
    Block,
}

/// What a host counted in the measured interval.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Its requests that were answered.
    pub(crate) answered: u64,
    /// The length of the interval, by this host's clock.
    pub(crate) time: Duration,
    /// From sending a request to its reply, in nanoseconds.
    pub round_trips: RoundTrips,
    /// Requests and replies with wrong content.
    pub(crate) wrong: u64,
    /// Requests that came back undelivered.
    pub returned: u64,
    /// Of its node, since it was opened.
    pub rejects_sent: u64,
    /// Messages sent again.
    pub retransmitted: u64,
    /// Requests that it received, and frames that were acknowledgements alone.
    pub requests: u64,
    /// Frames that only acknowledge.
    pub acks: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            answered: 0,
            time: Duration::ZERO,
            round_trips: round_trips(),
            wrong: 0,
            returned: 0,
            rejects_sent: 0,
            retransmitted: 0,
            requests: 0,
            acks: 0,
        }
    }
}

impl Tally {
    /// Answered requests a second.
    pub fn rate(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.answered as f64 / self.time.as_secs_f64() }
    }
}

/// Where hosts run.
pub trait Arena {
    /// Device and mode.
    fn mode(&self) -> String;

    /// Let hosts do this once, and count for a while; the warm-up begins when all connections are open. Returns a tally for each.
    fn run(&mut self, plans: &[HostPlan], amount: Amount) -> Result<Vec<Tally>, Error>;
}

/// Add up the tallies of hosts.
///
/// # Errors
/// [`Error::Changed`] if any message arrived with wrong content.
pub fn check(tallies: &[Tally]) -> Result<(), Error> {
    match tallies.iter().map(|tally| tally.wrong).sum::<u64>() {
        0 => Ok(()),
        wrong => Err(Error::Changed(format!(
            "{wrong} messages arrived with wrong content or length: something between the hosts cuts or changes them"
        ))),
    }
}
