//! What was delivered to a member.

use am_measure::members::clock;
use am_measure::{Check, Error, changed};

use crate::protocol::{KEPT, Received};

/// The deliveries of one measurement.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) count: u64,
    /// Of these, own messages.
    pub(super) own: u64,
    /// The start, and the end of the warm-up.
    began: u64,
    counts_from: u64,
    /// The longest time between two deliveries.
    pub(super) gap: u64,
    /// Those after the warm-up.
    counted: u64,
    times: Vec<u64>,
    last: u64,
    check: Check,
    is_changed: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::of(0)
    }
}

impl Seen {
    /// Of messages of this size.
    pub(super) fn of(size: usize) -> Seen {
        Seen {
            count: 0,
            own: 0,
            began: 0,
            counts_from: u64::MAX,
            gap: 0,
            counted: 0,
            times: Vec::with_capacity(KEPT),
            last: 0,
            check: Check::new(size),
            is_changed: false,
        }
    }

    /// Those from `counts_from` on count.
    pub(super) fn starts(&mut self, began: u64, counts_from: u64) {
        (self.began, self.counts_from) = (began, counts_from);
    }

    /// All messages, and own ones.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.count, self.own)
    }

    pub(super) fn delivered(&mut self, is_own: bool, payload: &[u8]) {
        self.delivered_at(clock(), is_own);
        self.is_changed |= !self.check.is_sent(payload);
    }

    /// An own message without content has come back.
    pub(super) fn returned(&mut self) {
        self.delivered_at(clock(), true);
    }

    fn delivered_at(&mut self, now: u64, is_own: bool) {
        if self.count > 0 {
            self.gap = self.gap.max(now - self.last);
        }
        self.count += 1;
        self.own += u64::from(is_own);
        self.counted += u64::from(now >= self.counts_from);
        self.last = now;
        if self.times.len() < KEPT {
            self.times.push(now);
        }
    }

    pub(super) fn received(&mut self) -> Result<Received, Error> {
        if self.is_changed {
            return Err(changed());
        }
        // On a busy machine the few messages may all be early.
        let (counted, from) =
            if self.counted > 0 { (self.counted, self.counts_from) } else { (self.count, self.began) };
        let took = self.last.saturating_sub(from);
        Ok(Received { times: std::mem::take(&mut self.times), counted, took })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deliveries_after_the_warm_up_count_and_the_longest_gap_is_kept() {
        let mut seen = Seen::of(0);
        seen.starts(20, 100);
        for (now, own) in [(50, true), (90, false), (110, false), (190, true), (200, false)] {
            seen.delivered_at(now, own);
        }
        assert_eq!((seen.counts(), seen.gap), ((5, 2), 80));
        let received = seen.received().unwrap();
        assert_eq!((received.times.len(), received.counted, received.took), (5, 3, 100));
    }

    #[test]
    fn early_deliveries_count_if_there_are_no_others() {
        let mut seen = Seen::of(0);
        seen.starts(20, 100);
        seen.delivered_at(60, true);
        seen.delivered_at(70, true);
        let received = seen.received().unwrap();
        assert_eq!((received.counted, received.took), (2, 50));
    }

    #[test]
    fn a_message_of_another_length_is_an_error() {
        let mut seen = Seen::of(3);
        seen.delivered(false, &[0; 4]);
        assert!(seen.received().is_err());
    }
}
