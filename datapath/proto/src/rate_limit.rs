//! Limits on the frames that forged frames can make this node send.
//!
//! A received frame can make this node broadcast a beacon. Over UDP a broadcast is one frame to each node, so one small
//! forged frame would become many. So broadcasts have a pause between them, which grows with the number of receivers.

use core::time::Duration;

use crate::mutants::{self, Mutant};
use crate::time::Time;

/// The pauses between broadcasts of a kind: for each receiver, the shortest and the longest.
#[derive(Debug)]
pub(crate) struct Pauses {
    per_receiver: Duration,
    least: Duration,
    most: Duration,
}

/// Of broadcasts because of unknown flows: at most 5000 frames a second, and forged nodes must not silence this one.
pub(crate) const UNKNOWN_FLOWS: Pauses = Pauses {
    per_receiver: Duration::from_micros(200),
    least: Duration::from_millis(5),
    most: Duration::from_millis(200),
};

/// Of broadcasts of a node that was late: with few peers each time that it was, and with many no more often than it sends beacons.
pub(crate) const LATENESS: Pauses =
    Pauses { per_receiver: Duration::from_millis(40), least: Duration::ZERO, most: Duration::from_secs(5) };

/// The limit on broadcasts.
#[derive(Debug, Default)]
pub(crate) struct BroadcastLimit {
    next: Time,
}

impl BroadcastLimit {
    /// Whether a broadcast is allowed now. If so, it starts the pause.
    pub(crate) fn try_take(&mut self, now: Time, receivers: usize, pauses: &Pauses) -> bool {
        let is_time = now >= self.next;
        if is_time {
            self.next = now + (pauses.per_receiver * receivers as u32).clamp(pauses.least, pauses.most);
        }
        is_time
    }
}

/// The limit on beacons in answer to one peer. A peer that waits for an answer asks again and again, and after a pause this node finds
/// all these questions at once. One answer is enough for them, or two if they came on two paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// When one more is allowed, and two a little later.
    next: Time,
}

impl Answers {
    /// Less than the shortest pause between two questions.
    const INTERVAL: Duration = Duration::from_millis(2);

    /// Whether to answer now. If so, it is counted.
    pub(crate) fn try_take(&mut self, now: Time) -> bool {
        let is_time = now + Answers::INTERVAL >= self.next;
        if is_time {
            self.next = self.next.max(now) + Answers::INTERVAL;
        }
        is_time
    }
}

/// Counts the rounds of probing, of all peers together.
#[derive(Debug, Default)]
pub(crate) struct ProbeRounds {
    since: Time,
    count: u32,
    /// The rounds of the interval before.
    before: u32,
}

impl ProbeRounds {
    const INTERVAL: Duration = Duration::from_millis(100);
    /// A dozen silent peers make this many rounds in that time.
    const MANY: u32 = 256;

    /// Count a round. Returns whether an interval has more than [`MANY`](Self::MANY) of them. Then a silent peer is probed less often: the
    /// probes of all nodes may keep it from answering.
    pub(crate) fn is_crowded(&mut self, now: Time) -> bool {
        let passed = now - self.since;
        if passed >= ProbeRounds::INTERVAL {
            self.before = if passed < 2 * ProbeRounds::INTERVAL { self.count } else { 0 };
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.count.max(self.before) > ProbeRounds::MANY
    }
}

/// A leaky bucket: `burst` at once, then one in each interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    interval: Duration,
    burst: u32,
    /// When the bucket is empty.
    empty: Time,
}

impl RateLimit {
    pub(crate) const fn new(interval: Duration, burst: u32) -> RateLimit {
        RateLimit { interval, burst, empty: Time(0) }
    }

    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Whether one more is allowed now. If so, it is counted.
    pub(crate) fn try_take(&mut self, now: Time) -> bool {
        let empty = self.empty.max(now) + self.interval;
        let is_time = empty - now <= self.interval * self.burst || mutants::is_active(Mutant::NoRate);
        if is_time {
            self.empty = empty;
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_second(receivers: usize) -> usize {
        let mut limit = BroadcastLimit::default();
        (0..1_000_000)
            .step_by(100)
            .filter(|&at| limit.try_take(Time(1) + Duration::from_micros(at), receivers, &UNKNOWN_FLOWS))
            .count()
    }

    #[test]
    fn a_rate_allows_a_burst_and_one_in_each_interval() {
        let mut rate = RateLimit::new(Duration::from_millis(2), 10);
        let at = |ms: u64| Time(1) + Duration::from_millis(ms);
        assert_eq!((0..100).filter(|_| rate.try_take(at(0))).count(), 10);
        assert_eq!((1..=100).filter(|ms| rate.try_take(at(*ms))).count(), 50);
        assert_eq!((0..100).filter(|_| rate.try_take(at(1000))).count(), 10, "there is no more room after a pause");
    }

    #[test]
    fn more_receivers_mean_fewer_broadcasts() {
        assert_eq!([0, 1, 25, 100, 500, 1000, 1 << 14].map(in_a_second), [200, 200, 200, 50, 10, 5, 5]);
    }
}
