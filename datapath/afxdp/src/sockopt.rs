//! Socket options for which no crate has a safe call.

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
