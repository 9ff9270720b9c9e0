//! What the bench and a member's process say to each other: lines of JSON. `bench/peers/corosync.c` reads and writes the same.
//!
//! ```text
//!   am-bench ordered              each member
//!     │ open (ours alone) ─────────▶│ founds or joins
//!     │◀────────────────────── ready│ all are there
//!     │ begin ─────────────────────▶│ counts from here on
//!     │◀────────────────────── begun│
//!     │ go ────────────────────────▶│ sends, or only receives
//!     │◀─────────────────────── done│ a sender: all its own are delivered to it
//!     │ finish ────────────────────▶│ receives until it has the messages of all senders
//!     │◀─────────────────── finished│
//! ```

use am_measure::members::Seat;
use serde::{Deserialize, Serialize};

use crate::work::Stack;

/// How a member opens its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) stack: Stack,
    pub(crate) seat: Seat,
    /// The IP addresses of all members' hosts.
    pub(crate) addresses: Vec<String>,
}

/// What a member does in one measurement. `corosync.c` parses the fields in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) size: usize,
    /// Its place among the senders. From their number on, it only receives.
    pub(crate) rank: usize,
    pub(crate) senders: usize,
    /// The most own messages on their way. 0: the senders take turns, each after the message of the one before it.
    pub(crate) window: usize,
    /// Nanoseconds.
    pub(crate) warm_up: u64,
    pub(crate) time: u64,
}

impl Job {
    pub(crate) fn sends(&self) -> bool {
        self.rank < self.senders
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Open(Opening),
    Begin(Job),
    Go,
    /// With the messages of all senders.
    Finish {
        total: u64,
    },
    /// Say whether this member is the sequencer.
    Lead,
    /// Send one message after another, or receive, until the process is killed, or there are no more orders.
    Survive {
        sends: bool,
    },
    /// Say the longest time without a delivery, after this number of further deliveries.
    Resume {
        count: u64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ready,
    Begun,
    Leads(bool),
    Done(Sent),
    Finished(Received),
    /// Nanoseconds.
    Resumed {
        gap: u64,
    },
}

/// What a sender has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) sent: u64,
    /// Of messages after the warm-up, while senders take turns: the message's place in the measurement, and when it was sent.
    pub(crate) times: Vec<(u64, u64)>,
}

/// What a member has received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Received {
    /// When each of the first messages was delivered, by its place in the measurement.
    pub(crate) times: Vec<u64>,
    /// Messages delivered after the warm-up, and nanoseconds from its end to the last one of them.
    pub(crate) counted: u64,
    pub(crate) took: u64,
}

/// The most messages of a measurement whose times are kept.
pub(crate) const KEPT: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    /// The program in C reads no JSON, but lines of this form.
    #[test]
    fn a_program_without_a_parser_can_read_the_lines() {
        let job = Job { size: 64, rank: 1, senders: 2, window: 16, warm_up: 5, time: 9 };
        let line = |order| serde_json::to_string(&order).unwrap();
        let expected = r#"{"begin":{"size":64,"rank":1,"senders":2,"window":16,"warm_up":5,"time":9}}"#;
        assert_eq!(line(Order::Begin(job)), expected);
        assert_eq!([line(Order::Go), line(Order::Finish { total: 7 })], [r#""go""#, r#"{"finish":{"total":7}}"#]);
        let said = r#"{"done":{"sent":3,"times":[[0,100],[1,200]]}}"#;
        assert!(matches!(serde_json::from_str(said), Ok(Answer::Done(Sent { sent: 3, times })) if times.len() == 2));
        let said = r#"{"finished":{"times":[1,2],"counted":2,"took":9}}"#;
        assert!(matches!(serde_json::from_str(said), Ok(Answer::Finished(Received { counted: 2, .. }))));
    }
}
