//! How messages are handed to the system, and which measurements may be compared.

use serde::{Deserialize, Serialize};

use crate::plan::Bench;
use crate::size::MessageLayout;

/// How many messages the system gets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batching {
    /// One message with each system call or doorbell.
    Single,
    /// Many with each; every message has a frame or datagram of its own. On a stream: many with each write.
    Bursts,
    /// Many with each, and they share frames. On a stream: as many with each write as `am` has in a frame.
    Shared,
}

impl Batching {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Batching::Single => "one message at a time",
            Batching::Bursts => "one message a frame, in bursts",
            Batching::Shared => "several messages a frame",
        }
    }

    /// The batching in a bench of a driver that sends many messages like this. A round trip has one message in flight; in bursts of
    /// `logp` each message has its own doorbell; a transfer is cut into full frames.
    pub(crate) fn of(self, bench: Bench) -> Batching {
        match bench {
            Bench::Latency | Bench::Volley | Bench::LogP => Batching::Single,
            Bench::Bulk => Batching::Bursts,
            Bench::Bandwidth | Bench::Rate => self,
        }
    }
}

/// Why two measurements have no ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Sizes(usize, usize),
    Batching(Batching, Batching),
}

impl Mismatch {
    /// What differs between two measurements; `None` if their ratio compares the drivers alone.
    pub(crate) fn of(one: (MessageLayout, Batching), other: (MessageLayout, Batching)) -> Option<Mismatch> {
        if one.0.size != other.0.size {
            return Some(Mismatch::Sizes(one.0.size, other.0.size));
        }
        (one.1 != other.1).then_some(Mismatch::Batching(one.1, other.1))
    }

    pub(crate) fn words(self) -> String {
        match self {
            Mismatch::Sizes(one, other) => format!("messages of {one} B beside {other} B"),
            Mismatch::Batching(one, other) => format!("{}, compared with {}", one.words(), other.words()),
        }
    }
}
