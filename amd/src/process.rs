//! The process of a program, which may have ended though its socket is open: a child that it has forked has a copy of the socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A descriptor of the process that has connected a socket. It is readable when the process has ended.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The process at the other end, whose number is `pid`. `None` if the system does not say, or if it has ended.
    pub(crate) fn of(socket: impl AsFd, pid: i32) -> Option<Process> {
        // A kernel before 6.5 knows the number only.
        let by_number = || pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
        getsockopt(&socket, PeerPidfd).ok().or_else(by_number).map(Process)
    }

    pub(crate) fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
