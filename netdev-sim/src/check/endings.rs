//! Nothing ends without a cause: who is given up is gone, who is said to have
//! been started again was, and who is said to have closed did so.

use std::collections::BTreeSet;

use super::{Checked, Violation};
use crate::clock::{MS, Nanos};

/// Why a flow ended, as one side says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side does not answer.
    GivenUp,
    /// The other side closed it.
    Closed,
    /// The other side was started again.
    Restarted,
}

/// What is true of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// It lives, and so does its half of the flow.
    pub open: bool,
    /// It has been started again.
    pub restarted: bool,
}

/// Who may end what.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    quiet_from: Nanos,
    asks_each: Nanos,
    closed: BTreeSet<u64>,
}

impl Endings {
    /// The faults stop at `quiet_from`; a node asks who does not answer again
    /// after `asks_each` at the latest.
    pub fn new(quiet_from: Nanos, asks_each: Nanos) -> Endings {
        Endings { quiet_from, asks_each, closed: BTreeSet::new() }
    }

    /// One side closes the flow with this number, or gives it up.
    pub fn closes(&mut self, flow: u64) {
        self.closed.insert(flow);
    }

    /// Whether one side has.
    pub fn is_closed(&self, flow: u64) -> bool {
        self.closed.contains(&flow)
    }

    /// One side says that the flow has ended.
    ///
    /// # Errors
    /// It had no reason to.
    pub fn ended(&self, now: Nanos, flow: u64, how: End, other: Other) -> Checked {
        // Questions and answers have got through since then, several times.
        let heard = now > self.quiet_from + 3 * self.asks_each + 20 * MS;
        let what = match how {
            End::GivenUp if other.open && heard => "was given up, but the other side lives and would answer",
            // A later run closes what it knows nothing of.
            End::Closed if !self.is_closed(flow) && !other.restarted => "is said to be closed, and nobody closed it",
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
