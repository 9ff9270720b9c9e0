//! When the log says that the wire has failed: once, and not at once. The first error of an interface that is removed is another one
//! (its carrier goes first), and some errors last only for a moment.

use std::time::{Duration, Instant};

/// The log says what is wrong after this long.
const SETTLE: Duration = Duration::from_secs(1);

/// Whether the wire has failed, and whether the log says so.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
    is_logged: bool,
}

/// What the log is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Failed,
    Works,
}

impl Outage {
    /// The wire was looked at.
    pub(crate) fn look(&mut self, has_failed: bool, now: Instant) -> Option<Line> {
        if !has_failed {
            self.since = None;
            return std::mem::take(&mut self.is_logged).then_some(Line::Works);
        }
        let since = *self.since.get_or_insert(now);
        if self.is_logged || now - since < SETTLE {
            return None;
        }
        self.is_logged = true;
        Some(Line::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_two_lines() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let mut look = |has_failed, milliseconds| outage.look(has_failed, start + Duration::from_millis(milliseconds));
        assert_eq!([look(false, 0), look(true, 1), look(true, 900)], [None; 3]);
        assert_eq!([look(true, 1001), look(true, 1002), look(true, 9000)], [Some(Line::Failed), None, None]);
        assert_eq!([look(false, 9001), look(false, 9002)], [Some(Line::Works), None]);
        // A short one is none.
        assert_eq!([look(true, 9003), look(false, 9500), look(true, 9600), look(true, 10_100)], [None; 4]);
    }
}
