//! The state that a transport needs to reopen itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::interface::Interface;
use crate::options::XdpOptions;

/// The program's counter is read at every 16th check. There is one check a millisecond.
const CHECKS_PER_READING: u32 = 16;
/// Truncated frames are counted over this many readings.
const READINGS_PER_PERIOD: u32 = 64;
/// This many truncated frames in a period show that the NIC truncates. A NIC that does not has none in its lifetime.
const MIN_TRUNCATED: u64 = 4;

/// What a transport needs to reopen itself.
pub(crate) struct ReopenState {
    pub(crate) options: XdpOptions,
    pub(crate) interface: Interface,
    pub(crate) wake: Arc<OwnedFd>,
    /// The largest credit that was announced.
    pub(crate) max_rx_credit: usize,
    pub(crate) truncation: TruncationDetector,
    /// When to look again for an interface that is gone.
    pub(crate) next_search: Instant,
}

impl ReopenState {
    pub(crate) fn new(options: &XdpOptions, interface: Interface, wake: Arc<OwnedFd>) -> ReopenState {
        ReopenState {
            options: options.clone(),
            interface,
            wake,
            max_rx_credit: 0,
            truncation: TruncationDetector::default(),
            next_search: Instant::now(),
        }
    }
}

/// Detects a NIC that truncates frames.
#[derive(Debug, Default)]
pub(crate) struct TruncationDetector {
    checks: u32,
    baseline: u64,
}

impl TruncationDetector {
    /// Whether it is time to read the counter.
    pub(crate) fn is_due(&mut self) -> bool {
        self.checks = self.checks.wrapping_add(1);
        self.checks.is_multiple_of(CHECKS_PER_READING)
    }

    /// Whether so many frames were truncated that the NIC does it regularly. `cut` is the program's counter.
    pub(crate) fn is_systematic(&mut self, cut: u64) -> bool {
        let many = cut - self.baseline >= MIN_TRUNCATED;
        if self.checks.is_multiple_of(CHECKS_PER_READING * READINGS_PER_PERIOD) {
            self.baseline = cut;
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings until truncation is detected, with so many truncated frames in each.
    fn readings(each: impl Fn(u32) -> u64) -> Option<u32> {
        let (mut cuts, mut cut) = (TruncationDetector::default(), 0);
        (1..=500).find(|&reading| {
            let looks = (1..=CHECKS_PER_READING).filter(|_| cuts.is_due()).count();
            assert_eq!(looks, 1);
            cut += each(reading);
            cuts.is_systematic(cut)
        })
    }

    #[test]
    fn many_at_once_are_a_habit_and_a_few_in_a_minute_are_none() {
        assert_eq!(readings(|_| 0), None);
        assert_eq!(readings(|_| 4), Some(1));
        assert_eq!(readings(|_| 1), Some(4));
        assert_eq!(readings(|reading| u64::from(reading.is_multiple_of(40))), None);
        assert_eq!(readings(|reading| if reading == 200 { 4 } else { 0 }), Some(200));
    }
}
