//! Time in the core, which is passed in, never read from a clock; and timers. Each timer has one entry in a heap, which
//! is corrected when it comes up.
//!
//! Nearly every timer that moves, moves later: each message postpones its flow's time-out. That costs nothing. The old
//! entry comes up, is found to be early, and goes back in. Only a timer that moves earlier gets a second entry. The old
//! one is then ignored, because its time is not the armed one.

use core::ops::{Add, Sub};
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since a fixed moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Later than every event.
    pub const NEVER: Time = Time(u64::MAX);

    /// Nanoseconds from `earlier` to this time; 0 if `earlier` is not earlier.
    #[inline]
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    #[inline]
    pub(crate) const fn later(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, duration: Duration) -> Time {
        // 2^64 nanoseconds are 584 years; a longer time does not wrap.
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.since(earlier))
    }
}

/// What a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKind {
    /// A flow's acknowledgement waits for a message to travel with.
    Ack,
    /// A flow's oldest message waits for its acknowledgement.
    Resend,
    /// A flow's reject queue waits for room at the receiver.
    Reject,
    /// A flow's set-up or close waits for an answer.
    Setup,
    /// A peer's probe waits for an answer.
    Probe,
    /// The next beacon of this node.
    Beacon,
    /// The next keepalive round.
    Keepalive,
    /// More flows at rest give their memory back.
    Idle,
    /// The next look at the members.
    Members,
}

/// When this timer comes up; [`Time::NEVER`] if it is not armed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerState(Time);

impl Default for TimerState {
    fn default() -> Self {
        TimerState(Time::NEVER)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, TimerKind, u16)>>,
}

impl Timers {
    pub(crate) fn new(capacity: usize) -> Self {
        Timers { heap: BinaryHeap::with_capacity(capacity) }
    }

    /// Make the timer of `owner` come up at `at`, or earlier if it is armed for earlier.
    #[inline]
    pub(crate) fn arm(&mut self, armed: &mut TimerState, wait: TimerKind, owner: u16, at: Time) {
        if at < armed.0 {
            armed.0 = at;
            self.heap.push(Reverse((at, wait, owner)));
        }
    }

    #[inline]
    pub(crate) fn next_due(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// The next entry that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, TimerKind, u16)> {
        if self.next_due() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl TimerState {
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.0 != Time::NEVER
    }

    /// Its entry is ignored from now on.
    pub(crate) fn disarm(&mut self) {
        self.0 = Time::NEVER;
    }

    /// Whether the entry of this time is the armed one. If so, the timer is disarmed.
    pub(crate) fn take_if_due(&mut self, at: Time) -> bool {
        let is_armed = self.0 == at;
        if is_armed {
            self.0 = Time::NEVER;
        }
        is_armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timers: &mut Timers, armed: &mut TimerState, now: u64) -> usize {
        std::iter::from_fn(|| timers.pop(Time(now))).filter(|&(at, ..)| armed.take_if_due(at)).count()
    }

    #[test]
    fn a_time_that_is_too_long_is_never() {
        for seconds in [18_446_744_074, u64::MAX / 3, u64::MAX] {
            assert_eq!(Time(7) + Duration::from_secs(seconds), Time::NEVER);
        }
        assert_eq!(Time(7) + Duration::from_nanos(5), Time(12));
    }

    #[test]
    fn one_that_moves_later_keeps_its_entry() {
        let (mut timers, mut armed) = (Timers::default(), TimerState::default());
        for at in 10..1000 {
            timers.arm(&mut armed, TimerKind::Ack, 1, Time(at));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.next_due(), Time(10), "it comes up early and is put right");
    }

    #[test]
    fn one_that_moves_earlier_fires_once() {
        let (mut timers, mut armed) = (Timers::default(), TimerState::default());
        timers.arm(&mut armed, TimerKind::Resend, 1, Time(50));
        timers.arm(&mut armed, TimerKind::Resend, 1, Time(20));
        assert_eq!(due(&mut timers, &mut armed, 19), 0);
        assert_eq!(due(&mut timers, &mut armed, 20), 1);
        assert_eq!(due(&mut timers, &mut armed, 100), 0, "the entry for 50 is stale");
    }
}
