//! A flow ends only for a reason. A peer that is given up is gone, a peer that is reported as restarted was restarted,
//! and a peer that is reported as closed has closed. After the last fault every message, question and flow is resolved.

use std::collections::BTreeSet;

use super::{Checked, ensure};
use crate::clock::{MS, Nanos};

/// The reason that one side gives for the end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The other side does not answer.
    GivenUp,
    /// The other side closed it.
    Closed,
    /// The other side was started again.
    Restarted,
}

/// The true state of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// The node and its half of the flow live.
    pub open: bool,
    /// The node was started again.
    pub restarted: bool,
}

/// The flows that were closed, and when a peer can count as unreachable.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    quiet_from: Nanos,
    question_interval: Nanos,
    /// The flows that one side has closed or given up.
    pub closed: BTreeSet<u64>,
}

impl Endings {
    /// The faults stop at `quiet_from`. A node repeats an unanswered question after `asks_each` at the latest.
    pub fn new(quiet_from: Nanos, asks_each: Nanos) -> Endings {
        Endings { quiet_from, question_interval: asks_each, closed: BTreeSet::new() }
    }

    /// One side says that the flow has ended.
    ///
    /// # Errors
    /// The reason is false.
    pub fn check_end(&self, now: Nanos, flow: u64, how: EndReason, other: PeerState) -> Checked {
        // By then several questions have been asked and answered without faults.
        let heard = now > self.quiet_from + 3 * self.question_interval + 20 * MS;
        let what = match how {
            EndReason::GivenUp if other.open && heard => "was given up, but the other side lives and answers",
            // A later run closes a flow that it does not know.
            EndReason::Closed if !self.closed.contains(&flow) && !other.restarted => {
                "is reported as closed, but neither side closed it"
            }
            EndReason::Restarted if !other.restarted => "ended with a restart that did not happen",
            _ => "",
        };
        ensure(what.is_empty(), "endings", || format!("flow {flow:#x} {what}"))
    }
}

/// The time by which everything is resolved.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    /// When the faults stop.
    pub from: Nanos,
    /// How much later everything is resolved.
    pub within: Nanos,
}

impl Liveness {
    /// This many messages, questions and flows are unresolved.
    ///
    /// # Errors
    /// Some are, and the time has passed.
    pub fn check(&self, now: Nanos, undecided: usize) -> Checked {
        ensure(undecided == 0 || now <= self.from + self.within, "liveness", || {
            let late = (now - self.from) / 1000;
            format!("{undecided} messages, questions or flows are unresolved {late} µs after the last fault")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: PeerState = PeerState { open: true, restarted: false };
    const GONE: PeerState = PeerState { open: false, restarted: true };

    #[test]
    fn each_needs_its_cause() {
        let mut endings = Endings::new(5 * MS, MS);
        assert_eq!(endings.check_end(10 * MS, 1, EndReason::GivenUp, LIVES), Ok(()), "it may have been out of reach");
        assert!(endings.check_end(100 * MS, 1, EndReason::GivenUp, LIVES).is_err());
        assert_eq!(endings.check_end(100 * MS, 1, EndReason::GivenUp, GONE), Ok(()));
        assert!(endings.check_end(1, 1, EndReason::Closed, LIVES).is_err());
        assert_eq!(endings.check_end(1, 1, EndReason::Closed, GONE), Ok(()), "a later run knows nothing of it");
        endings.closed.insert(1);
        assert_eq!(endings.check_end(1, 1, EndReason::Closed, LIVES), Ok(()));
        assert!(endings.check_end(1, 1, EndReason::Restarted, LIVES).is_err());
        assert_eq!(endings.check_end(1, 1, EndReason::Restarted, GONE), Ok(()));
    }

    #[test]
    fn what_stays_is_seen_when_its_time_is_over() {
        let liveness = Liveness { from: 100, within: 50 };
        assert_eq!((liveness.check(150, 3), liveness.check(1000, 0)), (Ok(()), Ok(())));
        assert!(liveness.check(151, 1).is_err());
    }
}
