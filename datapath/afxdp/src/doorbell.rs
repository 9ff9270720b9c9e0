//! Repeated doorbells, after one that did not send everything.

use std::mem;
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use crate::stats::TxCounters;

/// Call the kernel until it has taken all entries, or takes no more. `waiting` returns how many entries of the ring the
/// kernel has not taken.
pub(crate) fn retry(socket: RawFd, mut error: Errno, counters: &mut TxCounters, waiting: &mut dyn FnMut() -> u32) {
    let mut left = u32::MAX;
    loop {
        match error {
            // In copy mode the kernel stops at a frame that it had to drop.
            Errno::EBUSY => counters.dropped += 1,
            Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV => {
                counters.link_errors += 1;
                return;
            }
            // The kernel has sent as many as it sends at once, or is out of buffers.
            _ => (),
        }
        let before = mem::replace(&mut left, waiting());
        if left == before {
            counters.stalls += 1;
        }
        if left == 0 || left == before {
            return;
        }
        counters.kicks += 1;
        match send(socket, &[], MsgFlags::MSG_DONTWAIT) {
            Ok(_) => return,
            Err(next) => error = next,
        }
    }
}
