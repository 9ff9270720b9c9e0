//! DPDK itself.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::abi::Log;
use crate::dpdk;

/// See [`Table::start`](crate::abi::Table::start).
///
/// # Safety
/// `arguments` are `count` strings that live as long as the process: DPDK keeps them.
pub(crate) unsafe extern "C" fn start(count: c_int, arguments: *mut *mut c_char, log: Log) -> c_int {
    // SAFETY: called once, before anything else of DPDK's; the rest is the caller's.
    unsafe {
        let result = dpdk::am_log_to(Some(log));
        if result < 0 {
            return result;
        }
        let result = dpdk::am_pool_register();
        if result < 0 {
            return result;
        }
        let failed = (dpdk::rte_eal_init(count, arguments) < 0).then(error);
        // It has been made also where the start failed afterwards.
        remove_directory();
        failed.unwrap_or(0)
    }
}

/// DPDK makes a directory for files that processes share. We share none: it is empty, and would stay.
fn remove_directory() {
    // SAFETY: DPDK has been started, or has tried to; the string is its own and stays, empty where there is no directory.
    let path = unsafe { CStr::from_ptr(dpdk::rte_eal_get_runtime_dir()) };
    // Where there is something in it after all, it is somebody's.
    let _ = std::fs::remove_dir(OsStr::from_bytes(path.to_bytes()));
}

/// What DPDK calls `rte_errno`, negated; never 0.
pub(crate) fn error() -> c_int {
    // SAFETY: it reads a variable of the thread's.
    match unsafe { dpdk::am_errno() } {
        number if number > 0 => -number,
        _ => -libc_eio(),
    }
}

/// EIO, for what has no number.
const fn libc_eio() -> c_int {
    5
}
