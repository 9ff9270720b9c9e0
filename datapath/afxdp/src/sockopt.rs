//! Socket options for which no crate has a safe call, and the size of the send buffer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

/// Set an option. `value` is an integer, or the structure that the kernel defines for this option.
pub(crate) fn set<T: Copy>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> io::Result<()> {
    let bytes = size_of::<T>() as socklen_t;
    // SAFETY: the pointer and the length are those of `value`, which lives
    // across the call; the kernel only reads it.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast::<c_void>(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Get an option that is an integer.
pub(crate) fn get(fd: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut bytes = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `value`, and any bytes
    // are an integer; both live across the call.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast::<c_void>(), &raw mut bytes) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// In copy mode the kernel charges each frame in flight to the socket with the size of its buffer. This is the most.
const MAX_CHARGE_PER_FRAME: u32 = 8192;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames that one call moves in copy mode.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// Enlarge the send buffer, so that the whole transmit ring can be in flight at once, and be sent by one system call.
pub(crate) fn enlarge_send_buffer(socket: BorrowedFd<'_>, entries: u32, notes: &mut Vec<String>) {
    let bytes = entries.saturating_mul(MAX_CHARGE_PER_FRAME).min(i32::MAX as u32) as i32;
    let forced = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes);
    if let Err(error) = forced.or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)) {
        notes.push(format!("the socket's send buffer keeps its size ({error})"));
    }
    // Older kernels send 32 frames a call, and are called again.
    let _ = set(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, entries as i32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn an_option_round_trips() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BROADCAST).unwrap(), 0);
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BROADCAST, 1).unwrap();
        assert_eq!(get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BROADCAST).unwrap(), 1);
    }

    #[test]
    fn the_kernels_refusal_comes_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = get(socket.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)), "{error}");
    }
}
