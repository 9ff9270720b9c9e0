//! How often made-up frames have this node say something.
//!
//! Introductions to everybody that a received frame brings about. Where each node is sent a frame of its own (UDP),
//! one small forged frame would have us send as many as there are nodes: so there is a pause, the longer the more hear it.

use core::time::Duration;

use crate::planted::{self, Bug};
use crate::time::Time;

/// For each node that hears it: 5000 frames a second at most.
const FOR_EACH: Duration = Duration::from_micros(200);
/// However few they are.
const LEAST: Duration = Duration::from_millis(5);
/// However many: made-up nodes do not keep us silent.
const MOST: Duration = Duration::from_millis(200);

/// When everybody may be told something again.
#[derive(Debug, Default)]
pub(crate) struct Sparing {
    next: Time,
}

impl Sparing {
    /// Whether it is time; if so, not again before a pause.
    pub(crate) fn is_time(&mut self, now: Time, hearers: usize) -> bool {
        let is_time = now >= self.next;
        if is_time {
            self.next = now + (FOR_EACH * hearers as u32).clamp(LEAST, MOST);
        }
        is_time
    }
}

/// So many at once, and one in each interval: a leaky bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    interval: Duration,
    burst: u32,
    /// When the bucket is empty.
    empty: Time,
}

impl Rate {
    pub(crate) const fn new(interval: Duration, burst: u32) -> Rate {
        Rate { interval, burst, empty: Time(0) }
    }

    /// Whether there is room for one more; if so, it has been counted.
    pub(crate) fn is_time(&mut self, now: Time) -> bool {
        let empty = self.empty.max(now) + self.interval;
        let is_time = empty - now <= self.interval * self.burst || planted::is(Bug::NoRate);
        if is_time {
            self.empty = empty;
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_second(hearers: usize) -> usize {
        let mut sparing = Sparing::default();
        (0..1_000_000).step_by(100).filter(|&at| sparing.is_time(Time(1) + Duration::from_micros(at), hearers)).count()
    }

    #[test]
    fn a_rate_allows_a_burst_and_one_in_each_interval() {
        let mut rate = Rate::new(Duration::from_millis(2), 10);
        let at = |ms: u64| Time(1) + Duration::from_millis(ms);
        assert_eq!((0..100).filter(|_| rate.is_time(at(0))).count(), 10);
        assert_eq!((1..=100).filter(|ms| rate.is_time(at(*ms))).count(), 50);
        assert_eq!((0..100).filter(|_| rate.is_time(at(1000))).count(), 10, "there is no more room after a pause");
    }

    #[test]
    fn the_more_hear_it_the_rarer_it_is() {
        assert_eq!([0, 1, 25, 100, 500, 1000, 1 << 14].map(in_a_second), [200, 200, 200, 50, 10, 5, 5]);
    }
}
