//! Where a turn gets its time from.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use am_proto::Time;
use am_wire::control::Incarnation;
use nix::time::{ClockId, clock_gettime};

/// A monotonic clock, or for tests and simulations a manual one.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Since this reading of the machine's clock.
    Monotonic(u64),
    Manual(ManualClock),
}

impl Clock {
    /// The machine's monotonic clock; starts at 0.
    pub fn monotonic() -> Self {
        Clock(Source::Monotonic(nanoseconds()))
    }

    /// A clock that moves only when its [`ManualClock`] is moved; starts at 0.
    pub fn manual() -> (Self, ManualClock) {
        let manual = ManualClock(Rc::default());
        (Clock(Source::Manual(manual.clone())), manual)
    }

    /// The time. Costs about 20 ns, so that a turn reads it once.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::Monotonic(start) => Time(nanoseconds().wrapping_sub(*start)),
            Source::Manual(manual) => manual.0.get(),
        }
    }
}

/// The machine's clock, without the detour of [`std::time::Instant`] over
/// seconds and back, which costs as much again as the reading.
#[inline]
fn nanoseconds() -> u64 {
    // Fails only for clocks that there are not.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Sets the time of a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Rc<Cell<Time>>);

impl ManualClock {
    /// Later by so much.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + by);
    }

    /// To this moment.
    pub fn set(&self, to: Time) {
        self.0.set(to);
    }
}

/// A number for this run of a node that is larger than any earlier run's: the
/// wall clock in nanoseconds. (A clock that was set back between two runs
/// makes peers take the new run for a late frame of the old one, until the old one has
/// not answered for a while.)
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
