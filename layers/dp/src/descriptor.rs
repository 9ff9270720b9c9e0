//! The file descriptor of an endpoint.
//!
//! ```text
//!   the program's end ───── a pair of sockets ───── the node's end
//!   readable: a message is there     ◀── one byte
//!   closed by `close`, `exit`, `kill`  ──▶ hang-up: the endpoint is closed too
//! ```
//!
//! The program cannot write to its end. So a `write` without the preload library fails, and its bytes are not lost in a socket.
//!
//! The byte is written only while the program is not reading, and removed when the last message is read. So a program that polls by
//! reading makes no system call.
//!
//! The program may read the byte itself, through a copy (`dup`) or without the preload library. So before a wait the node checks that it
//! is still there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use am_api::own::{self, Own, high};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair};

/// The node's end.
#[derive(Debug)]
pub(crate) struct Signal {
    ours: Own,
    /// The number of the program's end.
    theirs: RawFd,
    /// The byte is in the socket, so the program's end is readable.
    is_on: bool,
    /// The signal is in the list of those whose byte is checked.
    pub(crate) is_watched: bool,
}

impl Signal {
    /// The node's end and the program's.
    pub(crate) fn pair() -> io::Result<(Signal, Own)> {
        // The program gets the lower number.
        let (theirs, ours) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        shutdown(theirs.as_raw_fd(), Shutdown::Write)?;
        let signal = Signal { ours: high(ours).into(), theirs: theirs.as_raw_fd(), is_on: false, is_watched: false };
        Ok((signal, Own::lent(theirs)))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Make the program's end readable.
    pub(crate) fn set(&mut self) {
        if let (false, Some(ours)) = (self.is_on, self.ours.get()) {
            self.is_on = send(ours.as_raw_fd(), b"m", MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).is_ok();
        }
    }

    /// Make it unreadable. The program may have closed its end, and opened something else under that number.
    pub(crate) fn clear(&mut self) {
        if self.is_on && own::is_own(self.theirs) {
            let taken = recv(self.theirs, &mut [0; 8], MsgFlags::MSG_DONTWAIT);
            self.is_on = !(taken.is_ok() || taken == Err(Errno::EAGAIN));
        }
    }

    /// Make it readable again, if the program has taken the byte. Returns whether to look again later.
    pub(crate) fn renew(&mut self) -> bool {
        let look = |theirs| recv(theirs, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        if self.is_on && own::is_own(self.theirs) && look(self.theirs) == Err(Errno::EAGAIN) {
            self.is_on = false;
            self.set();
        }
        self.is_watched = self.is_on;
        self.is_on
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}
