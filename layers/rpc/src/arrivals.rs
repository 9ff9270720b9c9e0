//! A flag that says whether something has arrived, for a program whose services stay on its own thread.
//!
//! ```text
//!   the program's thread, which has the node            the watching thread
//!   computes; looks at the flag  ◀─────── sets it ────── sleeps on the node's descriptor ◀── frames, deadlines
//!   it is set: polls, clears it, arms the descriptor ──▶ is not woken until then
//! ```

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use am_api::NodeDescriptor;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::rpc::Rpc;

/// Turns without a rest, after which the program goes on.
const MAX_TURNS: usize = 16;
/// Until the watching thread looks whether it has to end.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// An [`Rpc`] whose program computes, and handles calls between two steps of its work: [`poll`](Arrivals::poll) costs a step one load of memory while
/// nothing has arrived, and no system call.
///
/// A thread of its own watches the node's descriptor. It runs on the cores where the thread that makes this may run. Over a transport
/// without a descriptor (`dpdk:`) it wakes every 50 µs.
///
/// What the program begins between two polls, such as a call, is looked at in the next one if it used [`rpc`](Arrivals::rpc) for it; otherwise with
/// what arrives next.
///
/// ```
/// use am_rpc::{Arrivals, Rpc};
///
/// fn sum(rpc: Rpc, rows: &[Vec<u64>]) -> std::io::Result<u64> {
///     let mut arrivals = Arrivals::watch(rpc)?;
///     let mut sum = 0;
///     for row in rows {
///         sum += row.iter().sum::<u64>();
///         arrivals.poll();
///     }
///     Ok(sum)
/// }
/// ```
pub struct Arrivals {
    rpc: Rpc,
    descriptor: NodeDescriptor,
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

/// What the two threads share.
struct Watched {
    has_arrived: AtomicBool,
    is_over: AtomicBool,
    /// Of the node's descriptor, which it reports once each time that it is armed, and the timer.
    epoll: OwnedFd,
    /// For deadlines of calls that the node does not know, and for the end.
    timer: OwnedFd,
}

impl Arrivals {
    /// Watch what arrives for this endpoint from now on.
    ///
    /// # Errors
    /// The process has no descriptor or no thread left.
    pub fn watch(mut rpc: Rpc) -> io::Result<Arrivals> {
        let descriptor = rpc.endpoint().descriptor()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        // It is armed by the first poll.
        epoll::add(&epoll, &descriptor, EventData::new_u64(0), EventFlags::empty())?;
        let watched =
            Arc::new(Watched { has_arrived: AtomicBool::new(true), is_over: AtomicBool::new(false), epoll, timer });
        let of_thread = watched.clone();
        let thread = thread::Builder::new().name("am-arrivals".to_owned()).spawn(move || of_thread.watch())?;
        Ok(Arrivals { rpc, descriptor, watched, thread: Some(thread) })
    }

    /// Whether [`poll`](Arrivals::poll) has something to do.
    #[inline]
    pub fn are_waiting(&self) -> bool {
        self.watched.has_arrived.load(SeqCst)
    }

    /// Handle what has arrived, if anything has. Returns how many messages and events there were.
    #[inline]
    pub fn poll(&mut self) -> usize {
        if self.are_waiting() { self.take() } else { 0 }
    }

    /// The endpoint, to call and to wait, which polls by itself. The next [`poll`](Arrivals::poll) looks in any case, because what is done with the
    /// endpoint may end the watch.
    pub fn rpc(&mut self) -> &mut Rpc {
        self.watched.has_arrived.store(true, SeqCst);
        &mut self.rpc
    }

    /// Poll until nothing is left, and have the descriptor watched again.
    #[cold]
    fn take(&mut self) -> usize {
        let mut handled = 0;
        for _ in 0..MAX_TURNS {
            let just = self.rpc.poll();
            handled += just;
            if just == 0 && self.rpc.endpoint().prepare_wait().unwrap_or(false) {
                // If the kernel cannot watch it, the flag stays set, and the program polls.
                _ = self.watched.arm(&self.descriptor, self.rpc.local().0.may_sleep());
                break;
            }
        }
        handled
    }
}

impl Watched {
    /// Clear the flag, and set it when the descriptor is readable, or after this time.
    fn arm(&self, descriptor: &NodeDescriptor, due: Option<Duration>) -> io::Result<()> {
        // Before the timer, which may fire at once.
        self.has_arrived.store(false, SeqCst);
        if let Some(due) = due {
            self.set_timer(due.max(AT_ONCE)).inspect_err(|_| self.has_arrived.store(true, SeqCst))?;
        }
        let armed = epoll::modify(&self.epoll, descriptor, EventData::new_u64(0), EventFlags::IN | EventFlags::ONESHOT);
        armed.inspect_err(|_| self.has_arrived.store(true, SeqCst)).map_err(Into::into)
    }

    fn set_timer(&self, after: Duration) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec::try_from(after).unwrap_or(zero);
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })?;
        Ok(())
    }

    /// The watching thread.
    fn watch(&self) {
        let mut events = Vec::with_capacity(2);
        while !self.is_over.load(SeqCst) {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) => self.has_arrived.store(true, SeqCst),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.watched.is_over.store(true, SeqCst);
        if self.watched.set_timer(AT_ONCE).is_ok() {
            // It runs no code of the program, which could panic.
            self.thread.take().map(JoinHandle::join);
        }
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").field("are_waiting", &self.are_waiting()).finish_non_exhaustive()
    }
}
