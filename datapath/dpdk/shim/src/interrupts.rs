//! DPDK's thread of interrupts, on which drivers hear that a peer has gone.

use std::ffi::{c_int, c_void};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::dpdk;

/// Longer than the thread needs to go on from its alarms.
const WHILE: Duration = Duration::from_millis(5);

/// Run something there, and wait for it: nothing of a driver's runs there meanwhile.
pub(crate) fn there<F: FnOnce() -> c_int>(run: F) -> c_int {
    let (done, result) = sync_channel(1);
    // The other end waits.
    let set = later(move || _ = done.send(run()));
    if set < 0 { set } else { result.recv().unwrap_or(set) }
}

/// Wait until what had happened to a device is over there. The thread takes several events at once and goes by the numbers
/// of descriptors: one for a socket that was closed there before its turn would be taken for whatever gets that number
/// next, and a listener to whom nobody comes would hold the thread for ever.
pub(crate) fn settle() {
    // What is set while the thread is at its alarms may yet be among them.
    thread::sleep(WHILE);
    there(|| 0);
}

/// Run something there, in its turn. Below 0: it will not be.
pub(crate) fn later<F: FnOnce()>(run: F) -> c_int {
    let job = Box::into_raw(Box::new(run));
    // SAFETY: `work` gets the box, once. What it borrows lives: `there` waits, others borrow nothing.
    let set = unsafe { dpdk::rte_eal_alarm_set(1, Some(work::<F>), job.cast()) };
    if set < 0 {
        // SAFETY: nobody else got it.
        drop(unsafe { Box::from_raw(job) });
    }
    set
}

/// # Safety
/// `job` is the box that [`later`] made for this.
unsafe extern "C" fn work<F: FnOnce()>(job: *mut c_void) {
    // SAFETY: the caller's.
    let run = unsafe { Box::from_raw(job.cast::<F>()) };
    run();
}
