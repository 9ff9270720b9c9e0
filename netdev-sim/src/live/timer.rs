//! What wakes those who sleep, when something is due on their network.

use std::os::fd::AsFd;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::Nanos;

/// A timer of the system; readable from the time on that it was set to, until it is set anew.
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

    /// When it rings, or has rung, by the machine's clock.
    pub(super) fn at(&self) -> Option<Nanos> {
        self.at
    }

    /// To this time of the machine's clock, or never.
    pub(super) fn set(&mut self, at: Option<Nanos>) {
        self.at = at;
        // Neither fails for a timer that there is and a time that makes sense.
        let _ = match at {
            Some(at) => {
                let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
                self.fd.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
            None => self.fd.unset(),
        };
    }
}
