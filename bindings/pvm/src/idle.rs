//! How long a call that waits looks again and again before it sleeps.
//!
//! A message that comes within microseconds is received without a sleep, and its sender need not wake the task. Where a host has more tasks than
//! processors, what is waited for comes later, and the processor is another task's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A yield instead would give a busy processor away for milliseconds, and the kernel prefers what it wakes.
const SPIN: Duration = Duration::from_micros(20);

/// Beside a wait as long as this the time of a spin is little.
const LONG: Duration = Duration::from_millis(1);

/// All tasks of a host try at the same time, for a quarter of a millisecond of each 8: of two that answer each other both have to.
const TRIAL: u64 = 1 << 18;
const TRIALS: u64 = 32;

const ALWAYS: u32 = 256;

/// The part of the last short waits that ended within a spin, of those that began with one.
static PAYS: AtomicU32 = AtomicU32::new(ALWAYS);

/// The host's clock.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

/// When the trial of this moment ends, if there is one.
fn end_of_trial(now: Duration) -> Option<Duration> {
    let nth = now.as_nanos() as u64 / TRIAL;
    nth.is_multiple_of(TRIALS).then(|| Duration::from_nanos((nth + 1) * TRIAL))
}

/// What the last waits say with one more.
fn with(pays: u32, ended_early: bool) -> u32 {
    if ended_early { pays + (ALWAYS - pays).div_ceil(8) } else { pays - pays.div_ceil(8) }
}

/// A call that waits.
#[derive(Debug, Default)]
pub(crate) enum Idle {
    #[default]
    Busy,
    Spins {
        since: Duration,
        until: Duration,
    },
    /// With the time since when, if it has spun before.
    Sleeps {
        since: Option<Duration>,
    },
}

impl Idle {
    /// Something has happened.
    pub(crate) fn end(&mut self) {
        let since = match std::mem::take(self) {
            Idle::Spins { since, .. } => since,
            Idle::Sleeps { since: Some(since) } => since,
            Idle::Busy | Idle::Sleeps { since: None } => return,
        };
        let waited = now().saturating_sub(since);
        if waited < LONG {
            _ = PAYS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pays| Some(with(pays, waited <= SPIN)));
        }
    }

    /// Nothing has happened: whether to look again at once.
    pub(crate) fn spins(&mut self) -> bool {
        if let Idle::Sleeps { .. } = self {
            return false;
        }
        let now = now();
        if let Idle::Busy = self {
            let spins = |until| Idle::Spins { since: now, until };
            *self = match end_of_trial(now) {
                _ if PAYS.load(Ordering::Relaxed) >= ALWAYS / 2 => spins(now + SPIN),
                // The other task may still be asleep at first.
                Some(until) => spins(until),
                None => Idle::Sleeps { since: None },
            };
        }
        let Idle::Spins { since, until } = *self else { return false };
        if now >= until {
            *self = Idle::Sleeps { since: Some(since) };
        }
        now < until
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
        let tries = (0..TRIALS * 10).filter(|nth| end_of_trial(Duration::from_nanos(nth * TRIAL)).is_some()).count();
        assert_eq!(tries, 10);
    }
}
