//! One descriptor for everything that the process's endpoints wait for: the node's, and the hang-up of each program's end.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use am_api::own::{Own, high};
use am_api::{Endpoint, NodeDescriptor};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::point::PointId;

/// The number of the node's descriptor. No endpoint has it.
const NODE: u64 = u64::MAX;

fn number(id: PointId) -> u64 {
    u64::from(id.index) << 32 | u64::from(id.serial)
}

/// The most hang-ups that are handled at once.
const MAX_EVENTS: usize = 64;

pub(crate) struct Readiness {
    epoll: Own,
    /// Kept open because `epoll` watches it.
    _node: NodeDescriptor,
}

impl Readiness {
    pub(crate) fn new(sender: &Endpoint<()>) -> io::Result<Readiness> {
        let epoll = Own::new(high(epoll::create(CreateFlags::CLOEXEC)?));
        let node = sender.descriptor()?;
        epoll::add(&epoll, node.as_fd(), EventData::new_u64(NODE), EventFlags::IN)?;
        Ok(Readiness { epoll, _node: node })
    }

    /// Notice when the program closes its end.
    pub(crate) fn watch(&self, id: PointId, ours: BorrowedFd<'_>) -> io::Result<()> {
        // No event flag is needed: epoll always reports a hang-up.
        Ok(epoll::add(&self.epoll, ours, EventData::new_u64(number(id)), EventFlags::empty())?)
    }

    /// Do not report this hang-up any more.
    pub(crate) fn forget(&self, ours: BorrowedFd<'_>) {
        // Fails only for a descriptor that is not watched.
        _ = epoll::delete(&self.epoll, ours);
    }

    /// Endpoints whose program's end was closed.
    pub(crate) fn hang_ups(&self) -> Vec<PointId> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; MAX_EVENTS];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&none)) else { return vec![] };
        let numbers = events.iter().map(|event| event.data.u64()).filter(|number| *number != NODE);
        numbers.map(|number| PointId { index: (number >> 32) as u32, serial: number as u32 }).collect()
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
