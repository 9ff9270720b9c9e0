//! Wakers: what ends the sleep of a node's thread, from any thread, and the descriptor that it sleeps on.
//!
//! ```text
//!   transport's descriptors ──┐
//!   timer: the next deadline ─┼─ epoll ─▶ one descriptor, readable when the node needs a poll
//!   bell: other threads ──────┘
//! ```
//!
//! A blocking call waits for the transport's descriptors and the bell themselves, until the next deadline.
//!
//! A sleep costs the call that sleeps and the one that receives: what has not changed since the last sleep stays as it is. So the
//! timer is set only to an earlier time than before or after it has ended, the bell is read only if it was rung, and the epoll
//! watches the same files as before.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use am_engine::MAX_SLEEP;
use am_proto::Time;
use am_ring::own::{Own, high};
use am_ring::{Owner, WakeFlag};
use am_transport::{JointWaker, Transport};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// After this many turns without a sleep, the transport is not watched until the next sleep. Turns that send are not counted. A thread
/// that waits by [`Idle`](am_engine::Idle)'s default sleeps after fewer turns.
const WATCHED_SPINS: u32 = 1024;

/// The longest wait on a transport without descriptors.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A [`NodeWaker`] was used.
pub(crate) const BY_PROGRAM: u32 = 1;
/// A kept message was dropped, so its credit can return.
const BY_CREDIT: u32 = 2;

/// Ends the sleep of a node's thread. An eventfd is written only if the thread sleeps.
#[derive(Debug)]
struct Bell {
    flag: WakeFlag,
    event: Arc<Own>,
    owner: Owner,
}

impl Bell {
    fn ring(&self, reason: u32) {
        // A forked child shares the eventfd, and its flag shows the parent's thread asleep for ever.
        if self.flag.wake(reason) && self.owner.is_here() {
            // It fails only while the descriptor is readable already.
            _ = self.event.get().map(|event| rustix::io::write(event, &1u64.to_ne_bytes()));
        }
    }
}

/// Ends the wait of a node's thread, from any thread.
#[derive(Clone, Debug)]
pub struct NodeWaker(Arc<Bell>);

impl NodeWaker {
    /// End the node's wait: a [`wait`](crate::Endpoint::wait) returns, and the node's [descriptor](crate::Endpoint::descriptor)
    /// becomes readable. If the thread does not wait now, its next wait ends at once. What this thread has written before, the
    /// node's thread sees after that wait.
    ///
    /// This makes a system call only if the thread sleeps.
    pub fn wake(&self) {
        self.0.ring(BY_PROGRAM);
    }
}

/// Tells the node's thread that a credit can return, when this is dropped.
#[derive(Debug)]
pub(crate) struct CreditWaker(Arc<Bell>);

impl Drop for CreditWaker {
    fn drop(&mut self) {
        self.0.ring(BY_CREDIT);
    }
}

/// A node's descriptor, timer and bell.
#[derive(Debug)]
pub(crate) struct Waiter {
    joint: JointWaker,
    descriptor: Arc<Own>,
    /// The transport's descriptors, and the bell's. `None` if the transport has none: a wait is short.
    sleeps_on: Option<Box<[Arc<Own>]>>,
    timer: Own<TimerFd>,
    /// When the timer ends.
    until: Time,
    bell: Arc<Bell>,
    /// Whether the last call for a wait has prepared one, and no turn has found anything since.
    pub(crate) is_armed: bool,
    /// How often other threads have rung the bell, or will soon, since it was read.
    rings: Cell<u64>,
    /// For how many more spins the transport is watched.
    watched_spins: Cell<u32>,
}

impl Waiter {
    pub(crate) fn new(transport: &dyn Transport) -> io::Result<Waiter> {
        let wake = transport.caps().wake.as_deref();
        let joint = JointWaker::of_all([Some(wake.unwrap_or_default())].into_iter())?;
        let joint = joint.ok_or(io::ErrorKind::Unsupported)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let timer = Own::new(high(timer));
        let event = Arc::new(Own::new(high(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)));
        epoll::add(&joint.epoll, &*timer, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&joint.epoll, &*event, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Waiter {
            descriptor: Arc::new(Own::new(high(joint.epoll.try_clone()?))),
            sleeps_on: wake.map(|wake| wake.iter().chain([&event]).cloned().collect()),
            joint,
            timer,
            until: Time::default(),
            bell: Arc::new(Bell { flag: WakeFlag::default(), event, owner: Owner::new()? }),
            is_armed: false,
            rings: Cell::default(),
            watched_spins: Cell::new(WATCHED_SPINS),
        })
    }

    pub(crate) fn waker(&self) -> NodeWaker {
        NodeWaker(self.bell.clone())
    }

    pub(crate) fn credit_waker(&self) -> CreditWaker {
        CreditWaker(self.bell.clone())
    }

    pub(crate) fn node_descriptor(&self) -> NodeDescriptor {
        NodeDescriptor(self.descriptor.clone())
    }

    /// The descriptors for a thread to sleep on. `None` if it would miss frames.
    #[inline]
    pub(crate) fn sleeps_on(&self) -> Option<&[Arc<Own>]> {
        self.sleeps_on.as_deref()
    }

    /// Before a sleep. False: another thread has woken this one, so it must not sleep.
    pub(crate) fn try_sleep(&self) -> bool {
        self.bell.flag.try_sleep()
    }

    /// Before a wait on the node's descriptor. False: another thread has woken this one, or the kernel has no memory to watch the
    /// transport, so it must not wait.
    pub(crate) fn try_wait(&self) -> bool {
        self.watched_spins.set(WATCHED_SPINS);
        self.joint.watch().is_ok() && self.try_sleep()
    }

    /// Count a turn that sent nothing. After [`WATCHED_SPINS`] of them without a sleep, the `epoll` does not watch the transport until
    /// the next sleep.
    #[inline]
    pub(crate) fn note_spin(&self) {
        let left = self.watched_spins.get();
        if left > 0 {
            self.watched_spins.set(left - 1);
            if left == 1 {
                self.joint.unwatch();
            }
        }
    }

    /// The thread does not sleep. Returns whether another thread has woken it since this was last asked, and why.
    #[inline]
    pub(crate) fn end_sleep(&self) -> u32 {
        let (reasons, is_rung) = self.bell.flag.take_ringing();
        self.rings.set(self.rings.get() + u64::from(is_rung));
        if self.rings.get() > 0 {
            self.read_bell();
        }
        reasons
    }

    /// Whoever rings writes after it has set the flag. If that is still to come, the next sleep ends at once, and this is tried again.
    #[cold]
    fn read_bell(&self) {
        let mut rings = [0; 8];
        if let Some(Ok(_)) = self.bell.event.get().map(|event| rustix::io::read(event, &mut rings)) {
            self.rings.set(self.rings.get().saturating_sub(u64::from_ne_bytes(rings)));
        }
    }

    /// Make the descriptor readable at this time, or sooner if another endpoint asked for that.
    pub(crate) fn set_timer(&mut self, now: Time, due: Time) {
        let due = due.min(now + if self.sleeps_on.is_some() { MAX_SLEEP } else { POLL_INTERVAL });
        if now < self.until && self.until <= due {
            return;
        }
        self.until = due;
        let wait = TimeSpec::from_duration((self.until - now).max(Duration::from_nanos(1)));
        // It does not fail for an open timer and a valid time.
        _ = self.timer.set(Expiration::OneShot(wait), TimerSetTimeFlags::empty());
    }

    pub(crate) fn is_readable(&self) -> bool {
        let mut on = [PollFd::new(&self.joint.epoll, PollFlags::IN)];
        poll(&mut on, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// A node's descriptor. It stays valid after the node is dropped, and then is never readable.
#[derive(Clone, Debug)]
pub struct NodeDescriptor(Arc<Own>);

impl AsFd for NodeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for NodeDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
