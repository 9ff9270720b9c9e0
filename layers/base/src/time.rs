//! The ends of waits.

use std::time::{Duration, Instant};

/// A longer time is as good as this one, and may be more than a clock has.
pub const LONGEST: Duration = Duration::from_secs(1 << 30);

/// When a wait that begins now is over.
pub fn end_of(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(LONGEST)
}
