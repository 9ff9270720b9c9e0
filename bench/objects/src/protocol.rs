//! What the bench and a member's process say to each other: lines of JSON.
//!
//! ```text
//!   am-bench objects              each member
//!     │ open ──────────────────────▶│ founds or joins, and has the object
//!     │◀────────────────────── ready│ all are there
//!     │ begin ─────────────────────▶│
//!     │◀────────────────────── begun│
//!     │ go ────────────────────────▶│ calls, or goes on: one pushes what another pops
//!     │◀─────────────────────── done│ the caller
//!     │ finish ────────────────────▶│ goes on until it has all writes
//!     │◀─────────────────── finished│
//! ```

use am_measure::members::Seat;
use am_objects::Level;
use serde::{Deserialize, Serialize};

/// How a member opens its space.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) seat: Seat,
    pub(crate) level: Level,
}

/// A call that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// [`READS`] of them at once.
    Read,
    /// With this number of bytes.
    Write(usize),
    Latest,
    Pop,
}

/// The reads whose time is taken together.
pub(crate) const READS: u64 = 1000;
/// The most times of a measurement that are kept.
pub(crate) const KEPT: usize = 1 << 16;

/// What a member does in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    /// Nanoseconds of the warm-up and of the measurement.
    Call { call: Call, warm_up: u64, time: u64 },
    /// Push what another pops.
    Push,
    /// Go on.
    Serve,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Open(Opening),
    Begin(Job),
    Go,
    /// The object has this number of writes. `put`: the bytes that were put last.
    Finish {
        writes: u64,
        put: Option<usize>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ready,
    Begun,
    Done(Done),
    /// When each item was pushed, by the member that pushed them.
    Finished {
        pushed: Vec<u64>,
    },
}

/// What the caller has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// How long each call took, in nanoseconds; of pops, when each had its result. The warm-up's too.
    pub(crate) times: Vec<u64>,
    /// Those of the warm-up.
    pub(crate) early: usize,
    /// The writes that have run, other members' pushes included.
    pub(crate) writes: u64,
}

impl Done {
    /// On a busy machine the only call may be one of the warm-up.
    pub(crate) fn counts_from(&self) -> usize {
        self.early.min(self.times.len().saturating_sub(1))
    }
}
