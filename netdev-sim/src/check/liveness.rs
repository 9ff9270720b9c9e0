//! Liveness: after the last fault every message, question and flow is resolved.

use super::{Checked, Violation};
use crate::clock::Nanos;

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
        if undecided == 0 || now <= self.from + self.within {
            return Ok(());
        }
        let what = format!(
            "{undecided} messages, questions or flows are unresolved {} µs after the last fault",
            (now - self.from) / 1000
        );
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
