//! How the thread that works meanwhile keeps out of the program's way, and how calls wait.

use std::thread;
use std::time::{Duration, Instant};

use am_c_runtime::thread_end;
use libc::{c_int, clockid_t, timespec};
use nix::sys::time::TimeSpec;

use crate::failure::Failure;

/// After this many reads in a row that found nothing the program is taken to wait by reading.
const MANY_EMPTY: u32 = 32;
/// With this many calls between two looks the program is taken to be busy with its endpoints.
const MANY_CALLS: u32 = 1000;
/// How long to keep away from such a program.
pub(crate) const NAP: Duration = Duration::from_millis(1);
/// The longest sleep that a call of the program need not end.
const SHORT: Duration = Duration::from_millis(2);

/// Between two looks of a call that waits: at first, and when it has waited for long.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

unsafe extern "C-unwind" {
    fn clock_nanosleep(clock: clockid_t, flags: c_int, time: *const timespec, rest: *mut timespec) -> c_int;
}

/// The end of the process has waited since `start`, and waits for a part of that time more: many processes may wait on few processors.
pub(crate) fn pause(start: Instant) {
    thread::sleep(next_pause(start));
}

/// The same for a call, whose thread may be cancelled meanwhile.
///
/// # Errors
/// It was.
pub(crate) fn pause_call(start: Instant) -> Result<(), Failure> {
    let time = *TimeSpec::from_duration(next_pause(start)).as_ref();
    let slept = thread_end::cancellable(move || {
        // SAFETY: the time is read, and no rest is asked for.
        unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) }
    });
    slept.map(drop).ok_or_else(Failure::cancelled)
}

/// How long that is.
pub(crate) fn next_pause(start: Instant) -> Duration {
    (start.elapsed() / 8).clamp(PAUSES[0], PAUSES[1])
}

/// What the program did since the last look, and what the thread does meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    calls: u32,
    empty: u32,
    has_spun: bool,
    /// The thread sleeps on the node's descriptor.
    is_waiting: bool,
    /// It sleeps for long.
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
    /// The program has called. `is_empty`: it read, and found nothing. Returns whether the thread's sleep has to be looked after.
    #[inline]
    pub(crate) fn note_call(&mut self, is_empty: bool) -> bool {
        self.calls += 1;
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        self.has_spun |= self.empty > MANY_EMPTY;
        self.is_long || (is_empty && self.is_waiting && !self.has_spun)
    }

    /// Whether the thread sleeps for long. It does not from now on.
    pub(crate) fn take_long(&mut self) -> bool {
        std::mem::take(&mut self.is_long)
    }

    /// The thread looks. Returns whether the program has called since; `None` where it is busy with its endpoints itself.
    pub(crate) fn begin_look(&mut self) -> Option<bool> {
        let is_busy = self.has_spun || self.calls > MANY_CALLS;
        let is_active = self.calls > 0;
        *self = Pace { wait: self.wait, ..Pace::default() };
        (!is_busy).then_some(is_active)
    }

    /// Something has arrived: there may be more.
    pub(crate) fn again(&mut self) -> Step {
        self.wait = Duration::ZERO;
        Step::Again
    }

    /// Nothing is there: sleep until something is, longer each time, until the program calls again.
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
