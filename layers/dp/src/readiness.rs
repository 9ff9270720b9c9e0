//! One descriptor for everything that the process's endpoints wait for: the node's, and the hang-up of each program's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use am_api::{Endpoint, NodeDescriptor};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::point::PointId;

/// The number of the node's descriptor. No endpoint has it.
const NODE: u64 = u64::MAX;

fn number(id: PointId) -> u64 {
    u64::from(id.index) << 32 | u64::from(id.serial)
}

/// Hang-ups that are looked at in one go.
const MAX_EVENTS: usize = 64;

pub(crate) struct Readiness {
    epoll: Epoll,
    /// It is in there.
    _node: NodeDescriptor,
}

impl Readiness {
    pub(crate) fn new(door: &Endpoint<()>) -> io::Result<Readiness> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let node = door.descriptor()?;
        epoll.add(node.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, NODE))?;
        Ok(Readiness { epoll, _node: node })
    }

    /// Notice when the program closes its end.
    pub(crate) fn watch(&self, id: PointId, ours: BorrowedFd<'_>) -> io::Result<()> {
        // A hang-up is reported in any case.
        Ok(self.epoll.add(ours, EpollEvent::new(EpollFlags::empty(), number(id)))?)
    }

    /// Do not report this hang-up any more.
    pub(crate) fn forget(&self, ours: BorrowedFd<'_>) {
        // It fails only where it is not watched.
        _ = self.epoll.delete(ours);
    }

    /// Endpoints whose program's end was closed.
    pub(crate) fn hang_ups(&self) -> Vec<PointId> {
        let mut events = [EpollEvent::empty(); MAX_EVENTS];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let numbers = events[..count].iter().map(EpollEvent::data).filter(|number| *number != NODE);
        numbers.map(|number| PointId { index: (number >> 32) as u32, serial: number as u32 }).collect()
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
