//! How one who sleeps is woken.
//!
//! Nobody tells a transport that its thread is about to sleep. So what it would wait for is readable all the time, and who
//! polls it does not sleep, until [`arm`](Bell::arm): after a while in which nothing came.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::timer::Timer;

/// Readable, unless armed.
#[derive(Debug)]
pub(super) struct Bell {
    event: EventFd,
    is_armed: bool,
}

impl Bell {
    pub(super) fn new() -> nix::Result<Bell> {
        let event = EventFd::from_value_and_flags(1, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell { event, is_armed: false })
    }

    /// What to poll: readable when it rings, or the timer does.
    pub(super) fn wake(&self, timer: &Timer) -> nix::Result<Arc<OwnedFd>> {
        let both = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        both.add(&self.event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        both.add(timer.fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        Ok(Arc::new(both.0))
    }

    pub(super) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// From now on who polls it sleeps.
    pub(super) fn arm(&mut self) {
        // Fails where it is not readable, which is what is wanted.
        let _ = self.event.read();
        self.is_armed = true;
    }

    /// Readable again. Whether it was not.
    pub(super) fn ring(&mut self) -> bool {
        let was_armed = std::mem::take(&mut self.is_armed);
        if was_armed {
            // Fails where it is readable as often as can be counted.
            let _ = self.event.write(1);
        }
        was_armed
    }
}
