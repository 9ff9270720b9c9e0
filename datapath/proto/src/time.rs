//! Time in the core: it is passed in, never read from a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

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

    /// This many nanoseconds later.
    #[inline]
    pub(crate) const fn later(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(duration.as_nanos() as u64))
    }
}

impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.since(earlier))
    }
}
