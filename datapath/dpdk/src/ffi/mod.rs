//! The only calls of the shim: its functions, in the form that the rest of this crate uses.
//!
//! A [`Port`] moves frames for one thread at a time: each call that does so borrows it mutably. Its [`Chunks`] live
//! until the port is closed and the last frame has returned.

mod chunks;
mod port;

use std::ffi::{c_char, c_int};
use std::io;

pub(crate) use chunks::Chunks;
pub(crate) use port::{Port, Probed};

use crate::abi::Table;
use crate::log;

/// Frames that one call of the shim moves.
pub(crate) const BURST: usize = 64;

/// Receive buffers that a driver always has: twice what it takes at once.
pub(crate) const RX_LEVEL: usize = 2 * BURST;

/// Turn a negative result into the system's error.
fn check_result(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// Start DPDK with a program's arguments, ended by a null.
///
/// # Errors
/// DPDK's; see [`log`] for the reason.
pub(crate) fn start(table: &Table, arguments: &'static mut [*mut c_char]) -> io::Result<()> {
    let count = arguments.len() as c_int - 1;
    // SAFETY: `count` strings that live as long as the process. The caller holds the lock on all of DPDK and calls this
    // once.
    check_result(unsafe { (table.start)(count, arguments.as_mut_ptr(), log::on_message) }).map(drop)
}
