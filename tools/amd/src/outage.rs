//! Debounces the failure of the wire: the log reports one only after it has lasted for a second, and once. A removed interface first
//! reports another error, that its carrier is lost, and some errors last only for a moment.

use std::time::{Duration, Instant};

/// A failure that has lasted this long is logged.
const SETTLE: Duration = Duration::from_secs(1);

/// The time at which the wire failed, and whether the failure is logged.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
    is_logged: bool,
}

/// The line to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Failed,
    Works,
}

impl Outage {
    /// Update with the present state of the wire. Returns the line to log.
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
        // A failure shorter than a second is not logged.
        assert_eq!([look(true, 9003), look(false, 9500), look(true, 9600), look(true, 10_100)], [None; 4]);
    }
}
