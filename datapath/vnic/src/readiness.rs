//! One descriptor to wait on. It stays while the transport is open, although the socket changes when the daemon restarts.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use am_ring::own::{Own, high};
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

/// Its descriptor is readable when the socket has packets or was closed, or when it is time to connect again.
#[derive(Debug)]
pub(crate) struct Readiness {
    epoll: Arc<Own>,
    timer: Own,
}

impl Readiness {
    pub(crate) fn new() -> io::Result<Readiness> {
        let epoll = Own::new(high(epoll::create(epoll::CreateFlags::CLOEXEC)?));
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let timer = Own::new(high(timer));
        let readiness = Readiness { epoll: Arc::new(epoll), timer };
        readiness.add(&readiness.timer)?;
        Ok(readiness)
    }

    pub(crate) fn descriptor(&self) -> Arc<Own> {
        self.epoll.clone()
    }

    /// Watch a socket, until it is closed.
    pub(crate) fn add(&self, socket: impl AsFd) -> io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Watch a queue's socket, until it is closed. It wakes once after each [`arm`](Readiness::arm), because a watched socket makes each
    /// arriving frame more expensive.
    pub(crate) fn add_queue(&self, socket: impl AsFd) -> io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::ONESHOT)?;
        Ok(())
    }

    /// Become readable when a frame is in the queue, or arrives.
    pub(crate) fn arm(&self, socket: impl AsFd) {
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        // Fails only for a socket that is not watched. Then the node's own timers make it poll.
        let _ = epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(0), once);
    }

    /// Become readable after this time. Zero stops the timer.
    pub(crate) fn set_timer(&self, after: Duration) {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(after).unwrap_or(none);
        // Fails only for an invalid time. Then the node's own timers make it poll.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: none, it_value });
    }
}
