//! How long a call that waits looks again and again before it sleeps.
//!
//! A message that comes within microseconds is received without a sleep, and its sender need not wake the task. Where a host has more tasks than
//! processors, what is waited for comes later, and the processor is another task's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A yield instead would give a busy processor away for milliseconds, and the kernel prefers what it wakes.
const SPIN: Duration = Duration::from_micros(20);

/// All tasks of a host try at the same time, for a millisecond of each 33: of two that answer each other both have to.
const TRIAL: u64 = 1 << 20;
const TRIALS: u64 = 32;

const ALWAYS: u32 = 256;

/// The part of the last waits that ended before a sleep was due, of those that began so.
static PAYS: AtomicU32 = AtomicU32::new(ALWAYS);

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

fn is_trial(now: Duration) -> bool {
    (now.as_nanos() as u64 / TRIAL).is_multiple_of(TRIALS)
}

/// What the last waits say with one more.
fn with(pays: u32, ended_early: bool) -> u32 {
    if ended_early { pays + (ALWAYS - pays).div_ceil(8) } else { pays - pays.div_ceil(8) }
}

fn note(ended_early: bool) {
    _ = PAYS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pays| Some(with(pays, ended_early)));
}

/// A call that waits.
#[derive(Debug, Default)]
pub(crate) enum Idle {
    #[default]
    Busy,
    /// Until then.
    Spins(Duration),
    Sleeps,
}

impl Idle {
    /// Something has happened.
    pub(crate) fn end(&mut self) {
        if let Idle::Spins(_) = std::mem::take(self) {
            note(true);
        }
    }

    /// Nothing has happened: whether to look again at once.
    pub(crate) fn spins(&mut self) -> bool {
        if let Idle::Sleeps = self {
            return false;
        }
        let now = now();
        let until = match *self {
            Idle::Spins(until) => until,
            _ if PAYS.load(Ordering::Relaxed) >= ALWAYS / 2 || is_trial(now) => now + SPIN,
            _ => Duration::ZERO,
        };
        let spins = now < until;
        if !spins && matches!(self, Idle::Spins(_)) {
            note(false);
        }
        *self = if spins { Idle::Spins(until) } else { Idle::Sleeps };
        spins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_waits_in_a_row_decide() {
        let after = |from, ended_early, count| (0..count).fold(from, |pays, _| with(pays, ended_early));
        assert!(after(ALWAYS, false, 4) >= ALWAYS / 2 && after(ALWAYS, false, 6) < ALWAYS / 2);
        assert!(after(0, true, 4) < ALWAYS / 2 && after(0, true, 6) >= ALWAYS / 2);
        assert_eq!([after(ALWAYS, false, 99), after(0, true, 99)], [0, ALWAYS]);
    }

    #[test]
    fn all_tasks_try_at_the_same_time_and_seldom() {
        let tries = (0..TRIALS * 10).filter(|nth| is_trial(Duration::from_nanos(nth * TRIAL))).count();
        assert_eq!(tries, 10);
    }
}
