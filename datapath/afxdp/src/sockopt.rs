//! Socket options for which no crate has a safe call, and the size of the send buffer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use libc::{c_int, c_void, socklen_t, xdp_mmap_offsets, xdp_options, xdp_statistics};

/// Set an option. `value` is an integer, or the structure that the kernel defines for this option.
pub(crate) fn set<T: Copy>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> io::Result<()> {
    let bytes = size_of::<T>() as socklen_t;
    // SAFETY: the pointer and the length are those of `value`, which lives
    // across the call; the kernel only reads it.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast::<c_void>(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Structures of which any bytes are a value.
///
/// # Safety
/// It has only numbers.
pub(crate) unsafe trait Numbers {}
// SAFETY: numbers.
unsafe impl Numbers for xdp_mmap_offsets {}
// SAFETY: a number.
unsafe impl Numbers for xdp_options {}
// SAFETY: numbers.
unsafe impl Numbers for xdp_statistics {}

/// Get an option of an AF_XDP socket.
pub(crate) fn get<T: Numbers>(socket: RawFd, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut bytes = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `value`; both live across the call.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_XDP, option, value.as_mut_ptr().cast(), &raw mut bytes) };
    // SAFETY: numbers, and zero where the kernel wrote none.
    if result == 0 { Ok(unsafe { value.assume_init() }) } else { Err(io::Error::last_os_error()) }
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
    fn the_kernels_refusal_comes_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = get::<xdp_options>(socket.as_raw_fd(), libc::XDP_OPTIONS).err().unwrap();
        assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)), "{error}");
        let error = set(socket.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, 1).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)), "{error}");
    }
}
