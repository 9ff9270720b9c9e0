//! The progress thread, which works while the program does something else. In the paper's kernel an interrupt handler did this.
//!
//! ```text
//!   the program           this thread
//!   reads again and again naps, a millisecond each: the reads receive themselves
//!   sleeps, or computes   sleeps on the node's descriptor; receives, and makes the endpoints' descriptors readable
//!   writes after a pause  is woken, because the message may have to be sent again
//! ```

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use am_api::own::{Own, high};
use am_c_runtime::{Waker, start_thread};
use am_dp::Dp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::failure::Failure;
use crate::mapping::{self, Mapping};
use crate::pace::{NAP, Step, pause};
use crate::process::{self, PROCESS};
use crate::report;

/// How long the end of the process waits until written messages are accepted.
const FINISH: Duration = Duration::from_secs(5);
/// How long it waits for another thread's call.
const BUSY: Duration = Duration::from_millis(500);

/// Start the thread.
pub(crate) fn start(dp: &Dp<Mapping>, waker: Arc<Waker>) -> Result<(), Failure> {
    let descriptor = dp.descriptor().try_clone_to_owned().map_err(|error| Failure::io(&error, "no descriptor"))?;
    let descriptor = Own::new(high(descriptor));
    start_thread("dp", move || run(&descriptor, &waker)).map_err(|error| Failure::io(&error, "no thread"))
}

fn run(descriptor: &Own, waker: &Arc<Waker>) {
    loop {
        let mut slot = PROCESS.lock();
        // Without these descriptors there may be another node by now, which has its own thread.
        let Some(process) = slot.as_mut().filter(|process| process.has_waker(waker)) else { return };
        if process.is_found_lost() {
            return process::abandon(&mut slot);
        }
        waker.clear();
        let (step, lines, report_in) = (process.look(), process.due_report(), process.report_in());
        drop(slot);
        report::write(&lines);
        let readable = |of| PollFd::new(of, PollFlags::POLLIN);
        let (on, all) = (readable(waker.as_fd()), readable(descriptor.as_fd()));
        let time = match step {
            Step::Nap => {
                thread::sleep(NAP);
                continue;
            }
            Step::Again => {
                thread::yield_now();
                PollTimeout::ZERO
            }
            Step::Wait(time) => PollTimeout::try_from(time.min(report_in)).unwrap_or(PollTimeout::MAX),
        };
        _ = poll(&mut [on, all], time);
    }
}

/// The process ends: send written messages, and notify the peers.
pub(crate) fn finish() {
    let start = Instant::now();
    loop {
        // `exit` in a signal handler may have interrupted the call that has the lock.
        let Some(mut slot) = PROCESS.try_lock_for(BUSY) else { return };
        let Some(process) = slot.as_mut() else { return };
        if process.is_lost() {
            return process::abandon(&mut slot);
        }
        if process.dp.is_all_accepted() || start.elapsed() > FINISH {
            report::write(&process.report());
            mapping::keep_all();
            drop(slot.take());
            return;
        }
        process.dp.poll();
        drop(slot);
        pause(start);
    }
}
