//! What makes an endpoint a file descriptor.
//!
//! ```text
//!   the program's end ───── a pair of sockets ───── the node's end
//!   readable: a message is there     ◀── one byte
//!   closed by `close`, `exit`, `kill`  ──▶ hang-up: the endpoint goes, too
//! ```
//!
//! The program cannot write to its end: a `write` that no library has turned into a message fails, and is not lost in a socket.
//!
//! The byte is written only when the program is not reading anyway, and taken away when the last message is read. So a program that
//! polls by reading makes no system call.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair};
use nix::sys::stat::fstat;

/// The node's end.
#[derive(Debug)]
pub(crate) struct Signal {
    ours: OwnedFd,
    /// The program's end, as the kernel numbers it.
    theirs: u64,
    /// The byte is there.
    is_on: bool,
}

impl Signal {
    /// The node's end and the program's.
    pub(crate) fn pair() -> io::Result<(Signal, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        shutdown(theirs.as_raw_fd(), Shutdown::Write)?;
        let number = fstat(&theirs)?.st_ino;
        Ok((Signal { ours, theirs: number, is_on: false }, theirs))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Make the program's end readable.
    pub(crate) fn set(&mut self) {
        if !self.is_on {
            self.is_on = send(self.ours.as_raw_fd(), b"m", MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).is_ok();
        }
    }

    /// Make it unreadable. The program may have closed its end, and opened something else under that number.
    pub(crate) fn clear(&mut self, theirs: BorrowedFd<'_>) {
        if self.is_on && fstat(theirs).is_ok_and(|end| end.st_ino == self.theirs) {
            let taken = recv(theirs.as_raw_fd(), &mut [0; 8], MsgFlags::MSG_DONTWAIT);
            self.is_on = !(taken.is_ok() || taken == Err(Errno::EAGAIN));
        }
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}
