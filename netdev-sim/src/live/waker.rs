//! The descriptors that wake a sleeping node: one for each node, and a timer for the network's next event.
//!
//! A transport does not know when its thread is about to sleep. So its descriptor is readable all the time, and a thread
//! that polls it does not sleep. After a while without frames the transport calls [`arm`](NodeWaker::arm). From then on the
//! descriptor is readable only when a frame arrives.

use std::os::fd::AsFd;
use std::sync::Arc;

use am_ring::own::{Own, high};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::Nanos;

/// An eventfd that is readable unless it is armed.
#[derive(Debug)]
pub(super) struct NodeWaker {
    event: Own<EventFd>,
    pub(super) is_armed: bool,
}

impl NodeWaker {
    pub(super) fn new() -> nix::Result<NodeWaker> {
        let event = EventFd::from_value_and_flags(1, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(NodeWaker { event: event.into(), is_armed: false })
    }

    /// The descriptor to poll. It is readable when this eventfd or the timer is.
    pub(super) fn poll_descriptor(&self, timer: &Timer) -> nix::Result<Arc<Own>> {
        let both = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        both.add(&*self.event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        both.add(timer.fd.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        Ok(Arc::new(Own::new(high(both.0))))
    }

    /// Make it unreadable, so that a thread that polls it sleeps.
    pub(super) fn arm(&mut self) {
        // Fails if it is unreadable already.
        let _ = self.event.get().map(EventFd::read);
        self.is_armed = true;
    }

    /// Make it readable again. Whether it was armed.
    pub(super) fn wake(&mut self) -> bool {
        let was_armed = std::mem::take(&mut self.is_armed);
        if was_armed {
            // Fails only when the counter is at its maximum, and then it is readable.
            let _ = self.event.get().map(|event| event.write(1));
        }
        was_armed
    }
}

/// A timerfd. It is readable from the time that it is set to, until it is set again.
#[derive(Debug)]
pub(super) struct Timer {
    fd: Own<TimerFd>,
    /// The time that it is set to, by the machine's clock.
    pub(super) at: Option<Nanos>,
}

impl Timer {
    pub(super) fn new() -> nix::Result<Timer> {
        let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        Ok(Timer { fd: fd.into(), at: None })
    }

    /// Set it to this time of the machine's clock, or to never.
    pub(super) fn set(&mut self, at: Option<Nanos>) {
        self.at = at;
        // Neither call fails for an open timer and a valid time.
        let _ = match at {
            Some(at) => {
                let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
                self.fd.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
            None => self.fd.unset(),
        };
    }
}
