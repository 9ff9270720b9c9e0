//! The clock of a turn.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use am_proto::Time;
use am_wire::control::Incarnation;
use nix::time::{ClockId, clock_gettime};

/// A monotonic clock; or, in tests and simulations, a manual one.
#[derive(Clone, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    /// The machine's clock. 0 is at this reading of it.
    Monotonic(u64),
    Manual(ManualClock),
}

impl Clock {
    /// The machine's monotonic clock. It starts at 0.
    pub fn monotonic() -> Self {
        Clock(ClockSource::Monotonic(nanoseconds()))
    }

    /// A clock that moves only when its [`ManualClock`] does. It starts at 0.
    pub fn manual() -> (Self, ManualClock) {
        let manual = ManualClock(Rc::default());
        (Clock(ClockSource::Manual(manual.clone())), manual)
    }

    /// The time. A reading costs about 20 ns, so a turn reads it once.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            ClockSource::Monotonic(start) => Time(nanoseconds().wrapping_sub(*start)),
            ClockSource::Manual(manual) => manual.0.get(),
        }
    }
}

/// The machine's clock. [`std::time::Instant`] would convert to seconds and back, which doubles the cost.
#[inline]
fn nanoseconds() -> u64 {
    // Fails only for an unknown clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Sets the time of a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Rc<Cell<Time>>);

impl ManualClock {
    /// Move the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + by);
    }

    /// Set the clock.
    pub fn set(&self, to: Time) {
        self.0.set(to);
    }
}

/// The incarnation of this run of a node: the wall clock in nanoseconds, so that each run has a larger number than the one
/// before. If the wall clock is set back between two runs, peers take the new run's frames for late frames of the old run,
/// until the old run has left their questions unanswered for a while.
pub fn incarnation() -> Incarnation {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Incarnation(since_1970.map_or(1, |duration| duration.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_moves_every_copy_of_its_clock() {
        let (clock, hand) = Clock::manual();
        let copy = clock.clone();
        hand.advance(Duration::from_micros(3));
        assert_eq!((clock.now(), copy.now()), (Time(3_000), Time(3_000)));
        hand.set(Time(7));
        assert_eq!(copy.now(), Time(7));
    }

    #[test]
    fn the_monotonic_clock_moves_by_itself() {
        let clock = Clock::monotonic();
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now().since(before) >= 2_000_000);
    }

    #[test]
    fn a_later_run_has_the_larger_incarnation() {
        let first = incarnation();
        std::thread::sleep(Duration::from_micros(10));
        assert!(incarnation() > first);
    }
}
