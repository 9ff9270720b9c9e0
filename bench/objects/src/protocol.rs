//! What the bench and a member's process say to each other: lines of JSON.
//!
//! ```text
//!   am-bench objects              each member
//!     │ open ──────────────────────▶│ founds or joins, and has the object
//!     │◀────────────────────── ready│ all are there
//!     │ begin ─────────────────────▶│
//!     │◀────────────────────── begun│
//!     │ go ────────────────────────▶│ calls, or goes on: one pushes what another pops, or writes after it
//!     │◀─────────────────────── done│ the caller
//!     │ finish ────────────────────▶│ goes on until it has all writes
//!     │◀─────────────────── finished│
//! ```

use am_measure::members::Seat;
use am_objects::Level;
use serde::{Deserialize, Serialize};

use crate::repeat::Done;

/// How a member opens its space.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) seat: Seat,
    pub(crate) level: Level,
    /// The member that keeps the object.
    pub(crate) home: Option<usize>,
}

/// What a client of Redis connects to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Connecting {
    /// The primary's first.
    pub(crate) servers: Vec<String>,
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
    /// A read of what another process keeps.
    Ask,
    Pop,
    /// A null write, and that of another member that follows it.
    Turns,
}

/// The reads whose time is taken together.
pub(crate) const READS: u64 = 1000;

/// What a member does in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    /// Nanoseconds of the warm-up and of the measurement.
    Call { call: Call, warm_up: u64, time: u64 },
    /// Push what another pops.
    Push,
    /// Write after each write of another.
    Follow,
    /// Go on.
    Serve,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Open(Opening),
    /// Serve remote procedure calls, or call this member.
    Call(Seat, Option<usize>),
    /// Be a client of Redis.
    Connect(Connecting),
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
