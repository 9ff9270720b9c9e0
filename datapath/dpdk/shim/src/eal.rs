//! Starts DPDK, and runs functions on its interrupt thread. Drivers learn there that a peer has gone.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::abi::Log;
use crate::dpdk;

/// See [`Table::start`](crate::abi::Table::start).
///
/// # Safety
/// `arguments` are `count` strings that live as long as the process: DPDK keeps them.
pub(crate) unsafe extern "C" fn start(count: c_int, arguments: *mut *mut c_char, log: Log) -> c_int {
    // SAFETY: called once, before any other function of DPDK; the caller guarantees the rest.
    unsafe {
        let result = dpdk::am_log_to(Some(log));
        if result < 0 {
            return result;
        }
        let result = dpdk::am_pool_register();
        if result < 0 {
            return result;
        }
        let failed = (dpdk::rte_eal_init(count, arguments) < 0).then(|| dpdk::am_error());
        // The directory exists even if the start has failed.
        remove_directory();
        failed.unwrap_or(0)
    }
}

/// Remove the directory that DPDK makes for files that processes share. We share none, so it is empty, and DPDK would
/// leave it behind.
fn remove_directory() {
    // SAFETY: DPDK has been started, or has tried to. The string is its own and stays; it is empty if there is no
    // directory.
    let path = unsafe { CStr::from_ptr(dpdk::rte_eal_get_runtime_dir()) };
    // A directory that is not empty is in use, and stays.
    let _ = std::fs::remove_dir(OsStr::from_bytes(path.to_bytes()));
}

/// Longer than the thread needs to finish its alarms.
const WHILE: Duration = Duration::from_millis(5);

/// Run a function on DPDK's interrupt thread, and wait for its result. No driver's handler runs meanwhile.
pub(crate) fn there<F: FnOnce() -> c_int>(run: F) -> c_int {
    let (done, result) = sync_channel(1);
    // The receiver waits for this, so the send cannot fail.
    let set = later(move || _ = done.send(run()));
    if set < 0 { set } else { result.recv().unwrap_or(set) }
}

/// Wait until the thread has handled earlier events of a device. The thread takes several events at once, and
/// identifies them by descriptor number. A socket may be closed before its event is handled. The event would then be
/// taken for one of the next descriptor with that number. On a busy machine the pause may be too short: `c/memif.c` then
/// keeps the thread from waiting for that descriptor, but a connection may be cut.
pub(crate) fn settle() {
    // An alarm that is set while the thread runs its alarms may still be among them.
    thread::sleep(WHILE);
    there(|| 0);
}

/// Queue a function to run on that thread. Negative: it will not run.
pub(crate) fn later<F: FnOnce()>(run: F) -> c_int {
    let job = Box::into_raw(Box::new(run));
    // SAFETY: `work` gets the box, once. Borrowed data lives long enough: `there` waits, and other callers borrow
    // nothing.
    let set = unsafe { dpdk::rte_eal_alarm_set(1, Some(work::<F>), job.cast()) };
    if set < 0 {
        // SAFETY: nothing else has the box.
        drop(unsafe { Box::from_raw(job) });
    }
    set
}

/// # Safety
/// `job` is the box that [`later`] made for this call.
unsafe extern "C" fn work<F: FnOnce()>(job: *mut c_void) {
    // SAFETY: the caller's.
    let run = unsafe { Box::from_raw(job.cast::<F>()) };
    run();
}
