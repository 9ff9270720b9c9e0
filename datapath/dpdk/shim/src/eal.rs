//! Starts DPDK.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

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
        let failed = (dpdk::rte_eal_init(count, arguments) < 0).then(error);
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

/// DPDK's `rte_errno`, negated; never 0.
pub(crate) fn error() -> c_int {
    // SAFETY: the function reads a variable of this thread.
    match unsafe { dpdk::am_errno() } {
        number if number > 0 => -number,
        _ => -libc_eio(),
    }
}

/// EIO, for errors without a number.
const fn libc_eio() -> c_int {
    5
}
