//! DPDK's thread of interrupts, on which drivers hear that a peer has gone.

use std::ffi::{c_int, c_void};
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::dpdk;

struct Job<F> {
    run: F,
    done: SyncSender<c_int>,
}

/// Run something there, and wait for it: nothing of a driver's runs there meanwhile.
pub(crate) fn there<F: FnOnce() -> c_int>(run: F) -> c_int {
    let (done, result) = sync_channel(1);
    let job = Box::into_raw(Box::new(Job { run, done }));
    // SAFETY: `work` gets the box, once, while this waits: what `run` borrows lives.
    let set = unsafe { dpdk::rte_eal_alarm_set(1, Some(work::<F>), job.cast()) };
    if set < 0 {
        // SAFETY: nobody else got it.
        return (unsafe { Box::from_raw(job) }.run)();
    }
    result.recv().unwrap_or(set)
}

/// # Safety
/// `job` is the box that [`there`] made for this.
unsafe extern "C" fn work<F: FnOnce() -> c_int>(job: *mut c_void) {
    // SAFETY: the caller's.
    let job = unsafe { Box::from_raw(job.cast::<Job<F>>()) };
    let Job { run, done } = *job;
    // The other end waits.
    let _ = done.send(run());
}
