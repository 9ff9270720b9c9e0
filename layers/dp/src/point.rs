//! An endpoint's identity within the process, and the program's handle on it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_api::own::Own;

/// An endpoint of this process: its index in the node's set, which a later endpoint may get, and a serial number, which no other gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// An endpoint that this process has opened. It is a file descriptor ([`AsFd`]), readable by `poll`, `select` and `epoll` when a message can
/// be read. After its drop the endpoint is closed as soon as its messages have been accepted.
#[derive(Debug)]
pub struct Point {
    pub(crate) id: PointId,
    pub(crate) fd: Own,
}

impl Point {
    /// The program has closed the descriptor by its number, or will. Nothing is closed here.
    pub fn forget(self) {
        self.fd.forget();
    }

    /// Whether the program has closed the descriptor by its number, and may have another file there.
    pub fn is_lost(&self) -> bool {
        self.fd.is_lost()
    }
}

impl From<Point> for OwnedFd {
    fn from(point: Point) -> OwnedFd {
        point.fd.into_inner()
    }
}

impl AsFd for Point {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
