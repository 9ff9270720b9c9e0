//! A flow ends only for a reason. A peer that is given up is gone, a peer that is reported as restarted was restarted,
//! and a peer that is reported as closed has closed.

use std::collections::BTreeSet;

use super::{Checked, Violation};
use crate::clock::{MS, Nanos};

/// The reason that one side gives for the end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side does not answer.
    GivenUp,
    /// The other side closed it.
    Closed,
    /// The other side was started again.
    Restarted,
}

/// The true state of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// The node and its half of the flow live.
    pub open: bool,
    /// The node was started again.
    pub restarted: bool,
}

/// The flows that were closed, and when a peer can count as unreachable.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    quiet_from: Nanos,
    asks_each: Nanos,
    closed: BTreeSet<u64>,
}

impl Endings {
    /// The faults stop at `quiet_from`. A node repeats an unanswered question after `asks_each` at the latest.
    pub fn new(quiet_from: Nanos, asks_each: Nanos) -> Endings {
        Endings { quiet_from, asks_each, closed: BTreeSet::new() }
    }

    /// One side closes the flow with this number, or gives it up.
    pub fn closes(&mut self, flow: u64) {
        self.closed.insert(flow);
    }

    /// Whether one side has closed the flow or given it up.
    pub fn is_closed(&self, flow: u64) -> bool {
        self.closed.contains(&flow)
    }

    /// One side says that the flow has ended.
    ///
    /// # Errors
    /// The reason is false.
    pub fn ended(&self, now: Nanos, flow: u64, how: End, other: Other) -> Checked {
        // By then several questions have been asked and answered without faults.
        let heard = now > self.quiet_from + 3 * self.asks_each + 20 * MS;
        let what = match how {
            End::GivenUp if other.open && heard => "was given up, but the other side lives and answers",
            // A later run closes a flow that it does not know.
            End::Closed if !self.is_closed(flow) && !other.restarted => {
                "is reported as closed, but neither side closed it"
            }
            End::Restarted if !other.restarted => "ended with a restart that did not happen",
            _ => return Ok(()),
        };
        Err(Violation::new("endings", format!("flow {flow:#x} {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: Other = Other { open: true, restarted: false };
    const GONE: Other = Other { open: false, restarted: true };

    #[test]
    fn each_needs_its_cause() {
        let mut endings = Endings::new(5 * MS, MS);
        assert_eq!(endings.ended(10 * MS, 1, End::GivenUp, LIVES), Ok(()), "it may have been out of reach");
        assert!(endings.ended(100 * MS, 1, End::GivenUp, LIVES).is_err());
        assert_eq!(endings.ended(100 * MS, 1, End::GivenUp, GONE), Ok(()));
        assert!(endings.ended(1, 1, End::Closed, LIVES).is_err());
        assert_eq!(endings.ended(1, 1, End::Closed, GONE), Ok(()), "a later run knows nothing of it");
        endings.closes(1);
        assert_eq!(endings.ended(1, 1, End::Closed, LIVES), Ok(()));
        assert!(endings.ended(1, 1, End::Restarted, LIVES).is_err());
        assert_eq!(endings.ended(1, 1, End::Restarted, GONE), Ok(()));
    }
}
