//! The node of this task, its endpoint and its pairs, under one lock.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use am_api::{Endpoint, EndpointError, HandlerId, Node, NodeDescriptor, OpenError, Owner, Request};
use am_c_runtime::NodeOwner;
use parking_lot::Mutex;

use crate::environment;
use crate::library::Library;
use crate::pair::{Loose, Pairs, name_of};

/// The endpoint of a task's node.
pub(crate) const ENDPOINT: &str = "pvm";
/// The handler of a piece of a message.
pub(crate) const PIECE: HandlerId = HandlerId(0);
/// The longest payload of an active message. A longer message of PVM's goes in pieces.
pub(crate) const LONGEST: usize = 16 << 20;

/// What a task needs to send active messages.
pub(crate) struct Process {
    // Before the node.
    pub(crate) endpoint: Endpoint<Pairs>,
    pub(crate) pairs: Pairs,
    pub(crate) node: Node,
    descriptor: NodeDescriptor,
    /// The tag that a peer has to know.
    pub(crate) tag: u64,
    _owner: NodeOwner,
}

// SAFETY: the only value is in `PROCESS`, and every access is under its lock: `Rc` counts, cells and the node are touched by one
// thread at a time, and no `Rc` leaves it.
unsafe impl Send for Process {}

/// The one process. It is locked only where nothing of PVM's that may call back runs.
pub(crate) static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// Whether there is one: looked at without the lock.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// No node could be opened. All messages take PVM's own routes.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("no descriptor: {0}")]
    Descriptor(#[from] io::Error),
}

/// Whether this task has a node.
#[inline]
pub(crate) fn is_open() -> bool {
    IS_OPEN.load(Ordering::Relaxed)
}

/// Run `work` with the process, if there is one.
pub(crate) fn with<T>(work: impl FnOnce(&mut Process) -> T) -> Option<T> {
    if !is_open() {
        return None;
    }
    let mut process = PROCESS.lock();
    process.as_mut().map(work)
}

/// Run `work` with the process. The first call opens its node. `None` if it cannot be opened.
pub(crate) fn with_opened<T>(library: &'static Library, work: impl FnOnce(&mut Process) -> T) -> Option<T> {
    if HAS_FAILED.load(Ordering::Relaxed) {
        return None;
    }
    let mut slot = PROCESS.lock();
    if slot.is_none() {
        match Process::open(library) {
            Ok(process) => *slot = Some(process),
            Err(failure) => {
                HAS_FAILED.store(true, Ordering::Relaxed);
                environment::say(&format!("pvm-am: {failure}. The messages of this task take PVM's own routes."));
                return None;
            }
        }
        IS_OPEN.store(true, Ordering::Relaxed);
    }
    slot.as_mut().map(work)
}

/// Close the node, after everything that was sent has been accepted, or this time is over.
pub(crate) fn close(time: Duration) {
    wait_accepted(time);
    let process = {
        let mut slot = PROCESS.lock();
        IS_OPEN.store(false, Ordering::Relaxed);
        slot.take()
    };
    if let Some(process) = &process
        && environment::wants_report()
    {
        environment::say(&process.report());
    }
}

/// Wait until everything that was sent has been accepted, or this time is over.
pub(crate) fn wait_accepted(time: Duration) {
    let until = Instant::now() + time;
    while with(Process::is_all_accepted) == Some(false) && Instant::now() < until {
        let descriptor = with(|process| {
            process.poll();
            process.prepare_wait().then(|| process.descriptor())
        });
        if let Some(Some(descriptor)) = descriptor {
            crate::wait::sleep_on(&[descriptor], Some(until.saturating_duration_since(Instant::now())));
        }
    }
}

impl Process {
    fn open(library: &'static Library) -> Result<Process, Failure> {
        let owner = Owner::new()?;
        let own = name_of(library.own_tid());
        let open = |transport: &String| {
            Node::builder(&own).unique_name().max_message(LONGEST).message_memory(4 * LONGEST).open(transport)
        };
        let mut tries = environment::transports(library).into_iter();
        let mut node = open(&tries.next().unwrap_or_default());
        for transport in tries {
            if node.is_err() {
                node = open(&transport);
            }
        }
        let node = node?;
        let tag = am_api::tag_of([node.name()]);
        let mut endpoint = node.endpoint_with_tag::<Pairs>(ENDPOINT, tag)?;
        endpoint.on_request(PIECE, |pairs, Request { message, .. }| pairs.arrived(&message));
        endpoint.on_connection(|pairs, event| pairs.changed(event.change, event.connection, event.peer.node.as_str()));
        endpoint.on_returned(|pairs, _| pairs.counts.returned += 1);
        let descriptor = endpoint.descriptor()?;
        let pairs = Pairs::new(library);
        Ok(Process { endpoint, pairs, node, descriptor, tag, _owner: NodeOwner::new(owner) })
    }

    /// Receive, and send what waits.
    pub(crate) fn poll(&mut self) -> usize {
        self.endpoint.poll(&mut self.pairs)
    }

    /// The next whole message, if one has arrived.
    pub(crate) fn take(&mut self) -> Option<Loose> {
        if !self.pairs.has_ready() {
            self.poll();
        }
        self.pairs.take()
    }

    /// Whether a sleep on the descriptor misses nothing.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        !self.pairs.has_ready() && self.endpoint.prepare_wait().unwrap_or(false)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    fn is_all_accepted(&mut self) -> bool {
        self.pairs.connections().all(|connection| self.endpoint.is_accepted(connection))
    }

    /// This task's end of the pair is over: its connection is closed.
    pub(crate) fn end(&mut self, task: c_int) {
        if let Some(connection) = self.pairs.end(task) {
            self.endpoint.close(connection);
        }
    }

    fn report(&self) -> String {
        let counts = self.pairs.counts;
        let (name, peers) = (self.node.name(), self.pairs.switched());
        format!(
            "pvm-am: {name}: {} messages sent and {} received as active messages, {} returned, {peers} tasks reached, over {}",
            counts.sent,
            counts.received,
            counts.returned,
            self.node.transport()
        )
    }
}
