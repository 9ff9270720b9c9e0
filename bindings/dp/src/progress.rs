//! The thread that works while the program does something else: what an interrupt handler did for the paper's kernel.
//!
//! ```text
//!   the program           this thread
//!   reads again and again naps, a millisecond each: the reads receive themselves
//!   sleeps, or computes   sleeps on the node's descriptor; receives, and makes the endpoints' descriptors readable
//!   writes after a pause  is rung, because the message may have to be sent again
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use am_dp::Dp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

use crate::failure::Failure;
use crate::mapping::Mapping;
use crate::process::{PROCESS, Process};
use crate::report;

/// So many reads in a row that found nothing: the program waits by reading.
const MANY_EMPTY: u32 = 32;
/// So many calls between two looks: the program is busy with its endpoints.
const MANY_CALLS: u32 = 1000;
/// How long to keep away from such a program.
const NAP: Duration = Duration::from_millis(1);
/// The longest sleep that a call of the program need not end.
const SHORT: Duration = Duration::from_millis(2);
/// How long the end of the process waits for what was written.
const FINISH: Duration = Duration::from_secs(5);

/// What the program did since the last look, and what this thread does meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    calls: u32,
    empty: u32,
    has_spun: bool,
    /// This thread sleeps on the node's descriptor.
    is_waiting: bool,
    /// It sleeps for long.
    is_long: bool,
    /// The last sleep.
    wait: Duration,
}

/// What to do next.
enum Step {
    Again,
    Nap,
    Wait(Duration),
}

impl Process {
    /// The program has called. `is_empty`: it read, and found nothing.
    #[inline]
    pub(crate) fn note_call(&mut self, is_empty: bool) {
        let pace = &mut self.pace;
        pace.calls += 1;
        pace.empty = if is_empty { pace.empty + 1 } else { 0 };
        pace.has_spun |= pace.empty > MANY_EMPTY;
        if pace.is_long || (is_empty && pace.is_waiting && !pace.has_spun) {
            self.wake_or_arm();
        }
    }

    /// The thread sleeps: its descriptor has to become readable by what comes next.
    #[cold]
    fn wake_or_arm(&mut self) {
        if self.pace.is_long || !self.dp.prepare_wait().unwrap_or(false) {
            self.ring();
        }
    }

    fn ring(&mut self) {
        self.pace.is_long = false;
        // It fails only while it is readable already.
        _ = self.bell.write(1);
    }

    /// One look of the thread.
    fn look(&mut self) -> Step {
        let is_busy = self.pace.has_spun || self.pace.calls > MANY_CALLS;
        let is_active = self.pace.calls > 0;
        (self.pace.calls, self.pace.empty, self.pace.has_spun) = (0, 0, false);
        (self.pace.is_waiting, self.pace.is_long) = (false, false);
        if is_busy {
            return Step::Nap;
        }
        let handled = self.dp.poll();
        self.sweep();
        if handled > 0 || !self.dp.prepare_wait().unwrap_or(true) {
            self.pace.wait = Duration::ZERO;
            return Step::Again;
        }
        let longer = if is_active { NAP } else { (2 * self.pace.wait).max(NAP) };
        self.pace.wait = longer.min(self.dp.next_deadline()).max(NAP);
        (self.pace.is_waiting, self.pace.is_long) = (true, self.pace.wait > SHORT);
        Step::Wait(self.pace.wait)
    }
}

/// Start the thread.
pub(crate) fn start(dp: &Dp<Mapping>, bell: Arc<EventFd>) -> Result<(), Failure> {
    let descriptor = dp.descriptor().try_clone_to_owned().map_err(|error| Failure::io(&error, "no descriptor"))?;
    // Signals are for the program's own threads.
    let mut before = SigSet::empty();
    _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before));
    let started = thread::Builder::new().name("dp".into()).spawn(move || run(&descriptor, &bell));
    _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    started.map(drop).map_err(|error| Failure::io(&error, "no thread"))
}

fn run(descriptor: &OwnedFd, bell: &EventFd) {
    loop {
        let (step, lines, report_in) = match PROCESS.lock().as_mut() {
            Some(process) => (process.look(), process.due_report(), process.report_in()),
            None => return,
        };
        report::write(&lines);
        let readable = |of| PollFd::new(of, PollFlags::POLLIN);
        let (on, all) = (readable(bell.as_fd()), readable(descriptor.as_fd()));
        match step {
            Step::Again => thread::yield_now(),
            Step::Nap => thread::sleep(NAP),
            Step::Wait(time) => {
                let time = PollTimeout::try_from(time.min(report_in)).unwrap_or(PollTimeout::MAX);
                _ = poll(&mut [on, all], time);
                _ = bell.read();
            }
        }
    }
}

/// The process ends: what was written still leaves, and the peers are told.
pub(crate) extern "C" fn finish() {
    let start = Instant::now();
    while start.elapsed() < FINISH {
        let Some(mut slot) = PROCESS.try_lock_for(FINISH) else { return };
        let Some(process) = slot.as_mut() else { return };
        if process.dp.is_all_accepted() {
            report::write(&process.report());
            drop(slot.take());
            return;
        }
        process.dp.poll();
        drop(slot);
        thread::sleep(Duration::from_micros(50));
    }
}
