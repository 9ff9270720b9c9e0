//! Liveness: when the faults have stopped, everything drains.

use super::{Checked, Violation};
use crate::clock::Nanos;

/// How long that may take.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    /// The faults have stopped.
    pub from: Nanos,
    /// Everything is drained so much later.
    pub within: Nanos,
}

impl Liveness {
    /// So many messages, questions and flows are still undecided.
    ///
    /// # Errors
    /// Any are, and the time is over.
    pub fn check(&self, now: Nanos, undecided: usize) -> Checked {
        if undecided == 0 || now <= self.from + self.within {
            return Ok(());
        }
        let what = format!("{undecided} things are undecided {} µs after the last fault", (now - self.from) / 1000);
        Err(Violation::new("liveness", what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_seen_when_its_time_is_over() {
        let liveness = Liveness { from: 100, within: 50 };
        assert_eq!((liveness.check(150, 3), liveness.check(1000, 0)), (Ok(()), Ok(())));
        assert!(liveness.check(151, 1).is_err());
    }
}
