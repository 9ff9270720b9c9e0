//! Enlarges the socket's send buffer, so that the send path does not stall.

use std::os::fd::BorrowedFd;

use crate::sockopt;

/// In copy mode the kernel charges each frame in flight to the socket with the size of its buffer. This is the most.
const CHARGE: u32 = 8192;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames that one call moves in copy mode.
const MAX_TX_BUDGET: i32 = 9;

/// Allow the whole transmit ring to be in flight at once, and to be sent by one system call.
pub(crate) fn enlarge(socket: BorrowedFd<'_>, entries: u32, notes: &mut Vec<String>) {
    let bytes = entries.saturating_mul(CHARGE).min(i32::MAX as u32) as i32;
    let forced = sockopt::set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes);
    if let Err(error) = forced.or_else(|_| sockopt::set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)) {
        notes.push(format!("the socket's send buffer keeps its size ({error})"));
    }
    // Older kernels send 32 frames a call, and are called again.
    let _ = sockopt::set(socket, libc::SOL_XDP, MAX_TX_BUDGET, entries as i32);
}
