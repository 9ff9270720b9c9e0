//! The pace of the progress thread, which must not disturb a program that polls by itself, and the pauses of waiting calls.

use std::thread;
use std::time::{Duration, Instant};

use am_c_runtime::thread_end;
use libc::{c_int, clockid_t, timespec};
use nix::sys::time::TimeSpec;

use crate::failure::Failure;

/// After this many reads in a row that found nothing, the program counts as polling.
const MANY_EMPTY: u32 = 32;
/// With this many calls between two turns of the thread, the program counts as busy with its endpoints.
const MANY_CALLS: u32 = 1000;
/// How long the thread naps while the program polls or is busy.
pub(crate) const NAP: Duration = Duration::from_millis(1);
/// The longest sleep that a call of the program does not end.
const SHORT: Duration = Duration::from_millis(2);

/// The pause between two checks of a waiting call: at first, and after a long wait.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

unsafe extern "C-unwind" {
    fn clock_nanosleep(clock: clockid_t, flags: c_int, time: *const timespec, rest: *mut timespec) -> c_int;
}

/// A pause in the wait at the end of the process, which began at `start`. It is a part of the time waited so far, because many processes may
/// wait on few processors.
pub(crate) fn pause(start: Instant) {
    thread::sleep(next_pause(start));
}

/// A pause of a waiting call. Its thread may be cancelled meanwhile.
///
/// # Errors
/// The thread was cancelled.
pub(crate) fn pause_call(start: Instant) -> Result<(), Failure> {
    let time = *TimeSpec::from_duration(next_pause(start)).as_ref();
    let slept = thread_end::cancellable(move || {
        // SAFETY: the time is read, and no rest is asked for.
        unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) }
    });
    slept.map(drop).ok_or_else(Failure::cancelled)
}

/// The length of the next pause.
pub(crate) fn next_pause(start: Instant) -> Duration {
    (start.elapsed() / 8).clamp(PAUSES[0], PAUSES[1])
}

/// The program's calls since the last turn of the progress thread, and the state of that thread.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    calls: u32,
    empty: u32,
    has_spun: bool,
    /// The thread sleeps on the node's descriptor.
    is_waiting: bool,
    /// The thread sleeps longer than [`SHORT`], so a call of the program ends the sleep.
    is_long: bool,
    /// The last sleep.
    wait: Duration,
}

/// What the thread does next.
pub(crate) enum Step {
    Again,
    Nap,
    Wait(Duration),
}

impl Pace {
    /// Record a call of the program. `is_empty`: it was a read that found nothing. Returns whether the thread may have to be woken.
    #[inline]
    pub(crate) fn note_call(&mut self, is_empty: bool) -> bool {
        self.calls += 1;
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        self.has_spun |= self.empty > MANY_EMPTY;
        self.is_long || (is_empty && self.is_waiting && !self.has_spun)
    }

    /// Whether the thread sleeps for long. The caller wakes it.
    pub(crate) fn take_long(&mut self) -> bool {
        std::mem::take(&mut self.is_long)
    }

    /// Begin a turn of the thread. Returns whether the program has made calls since the last one. `None` if the program polls or is busy, so
    /// that the thread has nothing to do.
    pub(crate) fn begin_look(&mut self) -> Option<bool> {
        let is_busy = self.has_spun || self.calls > MANY_CALLS;
        let is_active = self.calls > 0;
        *self = Pace { wait: self.wait, ..Pace::default() };
        (!is_busy).then_some(is_active)
    }

    /// A message has arrived, and more may follow.
    pub(crate) fn again(&mut self) -> Step {
        self.wait = Duration::ZERO;
        Step::Again
    }

    /// Nothing has arrived: sleep on the descriptor. Each sleep is longer than the one before, until the program makes a call.
    pub(crate) fn wait(&mut self, is_active: bool, deadline: Duration) -> Step {
        let longer = if is_active { NAP } else { (2 * self.wait).max(NAP) };
        self.wait = longer.min(deadline).max(NAP);
        (self.is_waiting, self.is_long) = (true, self.wait > SHORT);
        Step::Wait(self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(step: &Step) -> u128 {
        match step {
            Step::Wait(time) => time.as_millis(),
            _ => 0,
        }
    }

    #[test]
    fn it_sleeps_longer_while_the_program_is_away_and_is_woken_then() {
        let mut pace = Pace::default();
        let hour = Duration::from_secs(3600);
        let sleeps = [(); 4].map(|()| {
            assert_eq!(pace.begin_look(), Some(false));
            millis(&pace.wait(false, hour))
        });
        assert_eq!(sleeps, [1, 2, 4, 8]);
        assert!(pace.note_call(false) && pace.take_long() && !pace.note_call(false));
        assert_eq!(pace.begin_look(), Some(true));
        assert_eq!(millis(&pace.wait(true, hour)), 1);
        assert!(!pace.note_call(false), "it wakes soon");
    }

    #[test]
    fn it_keeps_away_from_a_program_that_reads_again_and_again() {
        let mut pace = Pace::default();
        (0..=MANY_EMPTY).for_each(|_| _ = pace.note_call(true));
        assert_eq!(pace.begin_look(), None);
        assert_eq!(pace.begin_look(), Some(false), "it has stopped");
        (0..MANY_EMPTY).for_each(|_| _ = pace.note_call(true));
        pace.note_call(false);
        assert_eq!(pace.begin_look(), Some(true), "it found something");
    }

    #[test]
    fn a_program_that_found_nothing_may_sleep_next() {
        let mut pace = Pace::default();
        pace.begin_look();
        pace.wait(true, Duration::from_secs(1));
        assert!(pace.note_call(true) && !pace.note_call(false));
    }
}
