//! An endpoint's name within the process, and what the program holds of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use am_api::own::Own;

/// An endpoint of this process: its index in the node's set, which another one may have later, and a number that none has again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// An endpoint that this process has opened. It is a file descriptor ([`AsFd`]): `poll`, `select` and `epoll` say when a message can be
/// read. When it is dropped, the endpoint is closed, as soon as what was written has been accepted.
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
