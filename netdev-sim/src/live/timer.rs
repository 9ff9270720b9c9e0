//! The timer that wakes sleeping nodes when an event of their network is due.

use std::os::fd::AsFd;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::Nanos;

/// A timerfd. It is readable from the time that it is set to, until it is set again.
#[derive(Debug)]
pub(super) struct Timer {
    fd: TimerFd,
    at: Option<Nanos>,
}

impl Timer {
    pub(super) fn new() -> nix::Result<Timer> {
        let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        Ok(Timer { fd, at: None })
    }

    pub(super) fn fd(&self) -> impl AsFd {
        self.fd.as_fd()
    }

    /// The time that it is set to, by the machine's clock.
    pub(super) fn at(&self) -> Option<Nanos> {
        self.at
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
