//! Heartbeats: signs of life for a node whose program does not poll. A handler may sleep, and a program may compute for an
//! hour between two calls. Its peers must not take that for a crash.
//!
//! ```text
//!   the node's thread                      one thread of the process, which sleeps
//!   polls ── counts, every millisecond ──▶ looks every 200 ms: no poll in two looks?
//!   ... computes ...                         ├─▶ the node's beacon, marked as a heartbeat ──▶ the peers
//!   polls again ◀── `late` ──────────────────┘   (`OutOfBand`, where the transport has it)
//! ```
//!
//! This adds no cost to a message, because the node counts where it asks its transport for notices anyway. A node that
//! waits on its descriptors is not late unless a frame waits for it.
//!
//! The thread starts with the first node of the process. It ends soon after the last node is closed, or when all other
//! threads of the process have ended: otherwise it would keep the process alive. It blocks all signals, so no signal
//! handler of the program runs on it. A forked child has no such thread; the first node that it opens starts one.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};
use std::{fs, io, mem, process, thread};

use am_proto::Time;
use am_ring::Own;
use am_transport::{Caps, OutOfBand};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;

/// The time between two looks, and between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(200);
/// A node that has not polled in this many looks is late. A node that sleeps in a wait of this library polls every 250 ms,
/// so one look is not enough.
const LOOKS: u32 = 2;

/// The part of the node's thread.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    node: Arc<Watched>,
    polls: u64,
    /// When the node last polled too late, and how late.
    pub(crate) late: Option<(Time, Duration)>,
}

/// What the thread sees of a node.
#[derive(Debug)]
struct Watched {
    /// Twice the number of polls; odd while the program waits on the node's descriptors.
    polls: AtomicU64,
    is_late: AtomicBool,
    sent: AtomicU64,
    frame: Vec<u8>,
    wake: Vec<Arc<Own>>,
    /// `None` if the transport itself knows which peers live.
    out_of_band: Option<Arc<dyn OutOfBand>>,
}

impl Heartbeat {
    /// Watch a node. `frame` is its heartbeat.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(frame: Vec<u8>, caps: &Caps) -> io::Result<Heartbeat> {
        let node = Arc::new(Watched {
            polls: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            frame,
            wake: caps.wake.clone().unwrap_or_default(),
            out_of_band: caps.out_of_band.clone(),
        });
        caps.out_of_band.iter().for_each(|out_of_band| out_of_band.announce(&node.frame));
        watch(Arc::downgrade(&node))?;
        Ok(Heartbeat { node, polls: 0, late: None })
    }

    /// The node polls. Returns whether it is late.
    pub(crate) fn note_poll(&mut self) -> bool {
        self.polls += 2;
        self.node.polls.store(self.polls, Relaxed);
        self.node.is_late.load(Relaxed) && self.node.is_late.swap(false, Relaxed)
    }

    /// The program waits on the node's descriptors until the next poll.
    pub(crate) fn note_wait(&self) {
        self.node.polls.store(self.polls + 1, Relaxed);
    }

    /// How many heartbeats were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.node.sent.load(Relaxed)
    }
}

impl Watched {
    /// The node has not polled in [`LOOKS`] looks. It is late, unless it waits and nothing has arrived.
    fn beat(&self, polls: u64) {
        let waits = polls % 2 == 1;
        if waits && !self.has_frames() {
            return;
        }
        self.is_late.store(true, Relaxed);
        let Some(out_of_band) = &self.out_of_band else { return };
        if out_of_band.broadcast(&self.frame) {
            self.sent.fetch_add(1, Relaxed);
        }
    }

    fn has_frames(&self) -> bool {
        let mut wake: Vec<_> = self.wake.iter().map(|wake| PollFd::new(wake.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut wake, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

/// A heartbeat thread: the process that started it, its number, and the channel to it.
#[derive(Debug)]
struct Started {
    process: u32,
    number: u32,
    to_thread: Sender<Weak<Watched>>,
}

/// The thread that watches this process's nodes.
static THREAD: Mutex<Option<Started>> = Mutex::new(None);
/// After this time the lock is taken for lost: in a forked child, it may belong to a thread that only the parent has.
const LONGEST_LOCK: Duration = Duration::from_millis(100);

/// Hand a node to this process's thread. Start one if there is none, or if it cannot be reached.
fn watch(node: Weak<Watched>) -> io::Result<()> {
    let since = Instant::now();
    let mut started = loop {
        match THREAD.try_lock() {
            Ok(started) => break Some(started),
            Err(TryLockError::Poisoned(started)) => break Some(started.into_inner()),
            Err(TryLockError::WouldBlock) if since.elapsed() < LONGEST_LOCK => thread::yield_now(),
            Err(TryLockError::WouldBlock) => break None,
        }
    };
    if let Some(thread) = started.as_deref().and_then(Option::as_ref)
        && thread.process == process::id()
        && thread.to_thread.send(node.clone()).is_ok()
    {
        return Ok(());
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let (to_thread, nodes) = channel();
    // Send the node before the thread starts, because a thread without a node ends.
    _ = to_thread.send(node);
    // The thread inherits the mask.
    let before = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
    let spawned = thread::Builder::new().name("am-heartbeat".into()).spawn(move || run(&nodes, number));
    before.thread_set_mask()?;
    spawned?;
    match &mut started {
        // Dropping a channel takes its lock. In a forked child, a thread of the parent may hold that for ever.
        Some(started) => mem::forget(started.replace(Started { process: process::id(), number, to_thread })),
        // Nobody else can reach this thread, so it watches this node only.
        None => drop(to_thread),
    }
    Ok(())
}

/// A node, its last count of polls, and how many looks in a row have found that count.
type Seen = (Weak<Watched>, u64, u32);

fn run(nodes: &Receiver<Weak<Watched>>, number: u32) {
    let mut seen: Vec<Seen> = vec![];
    let mut next = Instant::now() + INTERVAL;
    loop {
        match nodes.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(node) => {
                seen.push((node, 0, 0));
                continue;
            }
            // A thread that watches one node only.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(next.saturating_duration_since(Instant::now())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        seen.retain_mut(look);
        next = Instant::now() + INTERVAL;
        if seen.iter().any(|(.., looks)| *looks >= LOOKS) && is_last_thread() {
            return;
        }
        if seen.is_empty()
            && let Ok(mut started) = THREAD.try_lock()
        {
            // While this thread has the lock, no other one sends a node.
            match nodes.try_recv() {
                Ok(node) => seen.push((node, 0, 0)),
                Err(_) => return drop(started.take_if(|thread| thread.number == number)),
            }
        }
    }
}

/// Returns whether the node is still open.
fn look((node, polls, looks): &mut Seen) -> bool {
    let Some(node) = node.upgrade() else { return false };
    let now = node.polls.load(Relaxed);
    *looks = if now == *polls { *looks + 1 } else { 0 };
    *polls = now;
    if *looks >= LOOKS {
        node.beat(now);
    }
    true
}

/// Whether this is the only running thread. An ended main thread stays in the kernel's list as a zombie.
fn is_last_thread() -> bool {
    // The name of the process may have spaces and parentheses.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // The fields 3 and 20 of proc_pid_stat(5): the state of the first thread, and how many threads there are.
    fields.next() == Some("Z") && fields.nth(16) == Some("2")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use am_transport::loopback;

    use super::*;

    #[derive(Debug)]
    struct Heard(Mutex<Sender<Vec<u8>>>);

    impl OutOfBand for Heard {
        fn broadcast(&self, frame: &[u8]) -> bool {
            self.0.lock().unwrap().send(frame.to_vec()).is_ok()
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    fn watched(wake: Option<Vec<Arc<Own>>>) -> (Heartbeat, Receiver<Vec<u8>>) {
        let (sender, heard) = mpsc::channel();
        let [plug, _] = loopback::pair();
        let transport = plug.open().unwrap();
        let caps = am_transport::Transport::caps(&transport).clone();
        let caps = Caps { out_of_band: Some(Arc::new(Heard(Mutex::new(sender)))), wake, ..caps };
        (Heartbeat::start(vec![7], &caps).unwrap(), heard)
    }

    #[test]
    fn a_program_that_does_not_poll_is_spoken_for_and_hears_of_it_once() {
        let (mut node, heard) = watched(None);
        node.note_poll();
        // The first one is counted before the second one is sent.
        (0..2).for_each(|_| assert_eq!(heard.recv_timeout(MINUTE), Ok(vec![7])));
        assert!(node.sent() > 0);
        assert_eq!([node.note_poll(), node.note_poll()], [true, false]);
    }

    #[test]
    fn one_that_waits_is_spoken_for_only_when_a_frame_waits_for_it() {
        let (mine, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut node, heard) = watched(Some(vec![Arc::new(Own::new(mine.into()))]));
        node.note_poll();
        node.note_wait();
        assert!(heard.recv_timeout(4 * LOOKS * INTERVAL).is_err(), "it waits, and nothing has arrived");
        io::Write::write_all(&mut peer, b"frame").unwrap();
        assert_eq!(heard.recv_timeout(MINUTE), Ok(vec![7]));
    }

    #[test]
    fn a_lock_that_is_never_released_is_no_obstacle() {
        let held = THREAD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut node, heard) = watched(None);
        node.note_poll();
        assert_eq!(heard.recv_timeout(MINUTE), Ok(vec![7]));
        drop(held);
    }

    #[test]
    fn a_closed_node_is_forgotten() {
        let (node, heard) = watched(None);
        drop(node);
        while heard.recv_timeout(MINUTE).is_ok() {}
    }
}
