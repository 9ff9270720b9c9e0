//! Waiting: what a thread does after a turn that had nothing to do.
//!
//! ```text
//!   something happened      idle for `spin`           idle for `yielding` more
//!  ─────────▶ SPIN ─────────────────────▶ YIELD ─────────────────────▶ SLEEP
//!               ▲                           │                            │
//!               └── a frame, or the caller says `busy` ──────────────────┘
//! ```
//!
//! Spinning has the lowest latency, and occupies a core. If more threads spin than there are cores, the awaited peer may be
//! waiting for this core. So the thread yields next, which costs nothing while no other thread wants to run. A sleep ends
//! when the transport has a frame, or a timer of the protocol is due.
//!
//! [`pin()`] keeps a thread on its core, where its caches are.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use am_proto::Time;
use am_ring::Own;
use am_transport::{Command, Transport};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// How often a sleeping thread polls a transport that has no descriptor.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The longest sleep. Then the node polls its transport, in case a peer died before it could wake this node, or the XDP
/// program dropped frames of a flow that this node does not know.
pub const MAX_SLEEP: Duration = Duration::from_millis(250);

/// How to wait: spin, then yield, then sleep.
#[derive(Clone, Debug)]
pub struct Idle {
    spin: Duration,
    yielding: Duration,
    /// Since when the thread is idle. `None` if it is not.
    since: Option<Time>,
}

impl Default for Idle {
    /// Spin for 3 µs if there is more than one core, yield for 200 µs, then sleep.
    ///
    /// A longer spin would hurt unpinned threads: if two of them share a core, each spins to the end before the other can
    /// answer. A yield costs half a microsecond, so a thread with a core of its own should use [`Idle::spinning`].
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = if cores > 1 { Duration::from_micros(3) } else { Duration::ZERO };
        Idle::new(spin, Duration::from_micros(200))
    }
}

impl Idle {
    /// Spin for `spin`, yield for `yielding`, then sleep.
    pub fn new(spin: Duration, yielding: Duration) -> Self {
        Idle { spin, yielding, since: None }
    }

    /// Never yield the core. For threads with a core of their own.
    pub fn spinning() -> Self {
        Idle::new(Duration::MAX, Duration::ZERO)
    }

    /// Sleep at once. For threads that wait for rare events.
    pub fn sleeping() -> Self {
        Idle::new(Duration::ZERO, Duration::ZERO)
    }

    /// Something happened, so the next wait starts with spinning.
    #[inline]
    pub fn busy(&mut self) {
        self.since = None;
    }

    /// Nothing happened, so spin, yield or sleep, depending on how long the thread has been idle, at most until `until`. The
    /// thread sleeps on `wake`, or without it on the transport's descriptors. Before a sleep the transport gets
    /// [`Command::BeforeSleep`], and there is no sleep if `may_sleep` is false: unless the transport
    /// [wakes by level](am_transport::Caps::wakes_by_level), it receives once more. Returns whether the thread yielded the core, so that `now` is out of date.
    #[inline]
    pub fn wait<T: Transport + ?Sized>(
        &mut self,
        now: Time,
        until: Time,
        transport: &mut T,
        wake: Option<&[Arc<Own>]>,
        may_sleep: impl FnOnce(&mut T) -> bool,
    ) -> bool {
        let step = self.next_action(now, until);
        match step {
            IdleAction::Spin => std::hint::spin_loop(),
            IdleAction::Yield => thread::yield_now(),
            IdleAction::Sleep(longest) => {
                // Only commands with a peer address can fail.
                _ = transport.control(Command::BeforeSleep);
                if may_sleep(transport) {
                    sleep(longest, wake.or(transport.caps().wake.as_deref()));
                }
            }
        }
        step != IdleAction::Spin
    }

    #[inline]
    fn next_action(&mut self, now: Time, until: Time) -> IdleAction {
        let idle = now - *self.since.get_or_insert(now);
        if idle < self.spin || until <= now {
            IdleAction::Spin
        } else if idle < self.spin.saturating_add(self.yielding) {
            IdleAction::Yield
        } else {
            IdleAction::Sleep((until - now).min(MAX_SLEEP))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum IdleAction {
    Spin,
    Yield,
    Sleep(Duration),
}

fn sleep(longest: Duration, wake: Option<&[Arc<Own>]>) {
    let wait = |on: &mut [PollFd<'_>]| {
        // An error means a signal or a bad descriptor. The next turn polls the transport, so no frame is lost.
        let _ = ppoll(on, Some(TimeSpec::from_duration(longest)), None);
    };
    match wake {
        Some([one]) => wait(&mut [on(one)]),
        Some([one, two]) => wait(&mut [on(one), on(two)]),
        Some(several @ [_, ..]) => wait(&mut several.iter().map(on).collect::<Vec<_>>()),
        Some([]) | None => thread::sleep(longest.min(POLL_INTERVAL)),
    }
}

fn on(wake: &Arc<Own>) -> PollFd<'_> {
    PollFd::new(wake.as_fd(), PollFlags::POLLIN)
}

/// Why a thread was not pinned.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// There is no such core, or the process may not use it.
    #[error(
        "core {asked} is not one of the cores that this process may run on, {have:?}: choose one of them, or widen the set with `taskset` or the container's cpuset"
    )]
    NoSuchCore {
        /// The requested core.
        asked: usize,
        /// The cores that the process may run on.
        have: Vec<usize>,
    },
    /// The system refused.
    #[error("the system refused to pin this thread to core {0}: choose another core, or run without pinning")]
    Refused(usize),
}

am_transport::debug_as_display!(PinError);

/// Pin the calling thread to a core.
///
/// # Errors
/// See [`PinError`]. The thread then stays unpinned.
pub fn pin(core: usize) -> Result<(), PinError> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let Some(&id) = cores.iter().find(|id| id.id == core) else {
        return Err(PinError::NoSuchCore { asked: core, have: cores.iter().map(|id| id.id).collect() });
    };
    if core_affinity::set_for_current(id) { Ok(()) } else { Err(PinError::Refused(core)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    const NS: Duration = Duration::from_nanos(1);

    #[test]
    fn spins_yields_sleeps_and_starts_over_when_busy() {
        let mut idle = Idle::new(10 * NS, 10 * NS);
        let mut step = |now| idle.next_action(Time(now), Time(100));
        assert_eq!([step(5), step(14)], [IdleAction::Spin, IdleAction::Spin]);
        assert_eq!([step(15), step(24)], [IdleAction::Yield, IdleAction::Yield]);
        assert_eq!(step(25), IdleAction::Sleep(75 * NS));
        idle.busy();
        assert_eq!(idle.next_action(Time(30), Time(100)), IdleAction::Spin);
    }

    #[test]
    fn due_work_prevents_sleep() {
        assert_eq!(Idle::sleeping().next_action(Time(7), Time(7)), IdleAction::Spin);
    }

    #[test]
    fn sleeps_are_bounded() {
        assert_eq!(Idle::sleeping().next_action(Time(0), Time::NEVER), IdleAction::Sleep(MAX_SLEEP));
    }

    #[test]
    fn a_sleeper_is_woken_by_its_transport() {
        let (mut peer, mine) = UnixStream::pair().unwrap();
        peer.write_all(b"frame").unwrap();
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        sleep(minute, Some(&[Arc::new(Own::new(mine.into()))]));
        assert!(start.elapsed() < minute);
    }

    #[test]
    fn each_of_several_wakes() {
        for number in 1..=3 {
            let pairs = [(); 3].map(|()| UnixStream::pair().unwrap());
            let wake = [0, 1, 2].map(|at| Arc::new(Own::new(OwnedFd::from(pairs[at].1.try_clone().unwrap()))));
            (&pairs[number - 1].0).write_all(b"frame").unwrap();
            let (start, minute) = (Instant::now(), Duration::from_secs(60));
            sleep(minute, Some(&wake[..number]));
            assert!(start.elapsed() < minute);
        }
    }

    #[test]
    fn a_sleeper_sleeps_as_long_as_it_should() {
        let (_peer, mine) = UnixStream::pair().unwrap();
        let (start, while_) = (Instant::now(), Duration::from_millis(3));
        sleep(while_, Some(&[Arc::new(Own::new(mine.into()))]));
        assert!(start.elapsed() >= while_);
    }

    #[test]
    fn a_pinned_thread_may_run_on_its_core_alone() {
        let last = core_affinity::get_core_ids().unwrap().pop().unwrap().id;
        let left = std::thread::spawn(move || {
            pin(last).unwrap();
            core_affinity::get_core_ids().unwrap()
        });
        let left: Vec<usize> = left.join().unwrap().iter().map(|id| id.id).collect();
        assert_eq!(left, [last]);
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let error = pin(9999).unwrap_err();
        assert!(error.to_string().starts_with("core 9999 is not one of the cores"), "{error}");
    }
}
