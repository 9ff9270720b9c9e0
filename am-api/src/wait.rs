//! Waiting in a loop of the program's own: a descriptor for `epoll` and its like, and a waker for other threads.
//!
//! ```text
//!   transport's descriptors ─┐
//!   timer: the next deadline ─┼─ epoll ─▶ one descriptor, readable when the node needs a poll
//!   waker: other threads ────┘
//! ```
//!
//! The descriptor is worth waiting on only after [`Endpoint::prepare_wait`] has said so. That call tells the transport, empties
//! timer and waker, and looks once more. So both a loop that is told of a state (level-triggered) and one that is told of a
//! change (edge-triggered) miss nothing: whatever comes later is a change.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use am_engine::PollScope;
use am_proto::Time;
use am_transport::{Command, JointWaker, Transport};
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::node_state::NodeState;
use crate::{Endpoint, Node};

/// The longest wait. After it the node looks at its transport, in case a peer died before it could wake this node.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// The longest wait on a transport without descriptors.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A node's descriptor, timer and waker.
#[derive(Debug)]
pub(crate) struct Waiter {
    joint: JointWaker,
    descriptor: [Arc<OwnedFd>; 1],
    timer: TimerFd,
    /// When the timer ends.
    until: Time,
    event: Arc<EventFd>,
    max_wait: Duration,
}

/// Ends the wait of a node's thread, from any thread.
#[derive(Clone, Debug)]
pub struct NodeWaker(Arc<EventFd>);

impl NodeWaker {
    /// End the node's wait: a [`wait`](Endpoint::wait) returns, and the node's [descriptor](Endpoint::descriptor) becomes readable.
    /// If the thread does not wait now, its next wait ends at once.
    pub fn wake(&self) {
        // It fails only while the descriptor is readable already.
        _ = self.0.write(1);
    }
}

impl Waiter {
    fn new(transport: &dyn Transport) -> io::Result<Waiter> {
        let wake = transport.caps().wake.as_deref();
        let joint = JointWaker::of_all([Some(wake.unwrap_or_default())].into_iter())?;
        let joint = joint.ok_or(io::ErrorKind::Unsupported)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        joint.epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        joint.epoll.add(&event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Waiter {
            descriptor: [Arc::new(joint.epoll.0.try_clone()?)],
            joint,
            timer,
            until: Time::default(),
            event: Arc::new(event),
            max_wait: if wake.is_some() { MAX_WAIT } else { POLL_INTERVAL },
        })
    }

    /// The descriptor to sleep on.
    #[inline]
    pub(crate) fn descriptor(&self) -> &[Arc<OwnedFd>] {
        &self.descriptor
    }

    /// Whether another thread has used the waker since this was last asked.
    pub(crate) fn take_wake(&self) -> bool {
        self.event.read().is_ok()
    }

    /// Make the descriptor readable at this time, or sooner if another endpoint asked for that.
    fn set_timer(&mut self, now: Time, due: Time) {
        let due = due.min(now + self.max_wait);
        self.until = if self.until > now { self.until.min(due) } else { due };
        let wait = TimeSpec::from_duration((self.until - now).max(Duration::from_nanos(1)));
        // It does not fail for an open timer and a valid time.
        _ = self.timer.set(Expiration::OneShot(wait), TimerSetTimeFlags::empty());
    }

    fn is_readable(&self) -> bool {
        // The transport may have reopened itself.
        _ = self.joint.watch();
        self.joint.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

impl NodeState {
    fn waiter(&mut self) -> io::Result<&mut Waiter> {
        if self.waiter.is_none() {
            self.waiter = Some(Waiter::new(&*self.transport)?);
        }
        self.waiter.as_mut().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl Node {
    /// A waker of this node, for other threads.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn waker(&self) -> io::Result<NodeWaker> {
        Ok(NodeWaker(self.state.borrow_mut().waiter()?.event.clone()))
    }
}

impl<S> Endpoint<S> {
    /// The node's descriptor, for `epoll`, `poll`, `io_uring` and async executors: it becomes readable when this endpoint has to be
    /// [polled](Endpoint::poll). Wait on it only after [`prepare_wait`](Endpoint::prepare_wait). Do not read from it.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<NodeDescriptor> {
        Ok(NodeDescriptor(self.node.borrow_mut().waiter()?.descriptor[0].clone()))
    }

    /// Call this after a poll that handled nothing, before a wait on the node's [descriptor](Endpoint::descriptor). False: there is
    /// something to do, so poll again. True: wait. From then on the descriptor becomes readable by a frame that arrives, the next
    /// deadline, or a [waker](Node::waker).
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn prepare_wait(&self) -> io::Result<bool> {
        let mut node = self.node.borrow_mut();
        let due = node.engine.sleep_until().min(self.calls.borrow().next_check());
        let now = node.clock.now();
        let due = node.limit_sleep(now, due);
        node.waiter()?;
        let has_work = node.has_work();
        let NodeState { engine, transport, waiter: Some(waiter), .. } = &mut *node else { return Ok(false) };
        _ = waiter.take_wake();
        // Only commands with a peer address can fail.
        _ = transport.control(Command::BeforeSleep);
        if has_work || due <= now || engine.inhale(PollScope::FramesOnly, || now, &mut **transport) > 0 {
            return Ok(false);
        }
        waiter.set_timer(now, due);
        Ok(!waiter.is_readable())
    }
}

/// A node's descriptor. It stays valid after the node is dropped, and then is never readable.
#[derive(Clone, Debug)]
pub struct NodeDescriptor(Arc<OwnedFd>);

impl AsFd for NodeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl std::os::fd::AsRawFd for NodeDescriptor {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}
