//! The node of this task, its endpoint and its pairs, under one lock.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use am_api::{Endpoint, EndpointError, Framing, HandlerId, Node, NodeDescriptor, OpenError, Owner, Request};
use am_c_runtime::{NodeOwner, Waker, thread_end};
use parking_lot::Mutex;

use crate::environment;
use crate::library::Library;
use crate::pair::{Loose, Pairs, WORDS, name_of};
use crate::progress::{self, Step};
use crate::{wait, watch};

/// The endpoint of a task's node.
pub(crate) const ENDPOINT: &str = "pvm";
/// The handler of a piece of a message.
pub(crate) const PIECE: HandlerId = HandlerId(0);

/// What a task needs to send active messages.
pub(crate) struct Process {
    // Before the node.
    pub(crate) endpoint: Endpoint<Pairs>,
    pub(crate) pairs: Pairs,
    pub(crate) node: Node,
    descriptor: NodeDescriptor,
    /// Ends the sleep of its thread.
    waker: Arc<Waker>,
    /// Readable when the thread has received messages, for a program that waits on it.
    bell: Waker,
    /// The tag that a peer has to know.
    pub(crate) tag: u64,
    owner: NodeOwner,
    no_sleeps: u32,
}

// SAFETY: the only value is in `PROCESS`, and every access is under its lock: `Rc` counts, cells and the node are touched by one
// thread at a time, and no `Rc` leaves it.
unsafe impl Send for Process {}

/// The daemon says that a task has ended, or its host. Until then silence is no end: a task may be stopped, or a host have too much to do.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A task answers when its processor has done other tasks' work.
const ACK_DELAY: Duration = Duration::from_millis(1);

/// The one process. It is locked only where nothing of PVM's that may call back runs.
pub(crate) static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// How long the end of the process waits for a call that has the lock.
const BUSY: Duration = Duration::from_millis(500);

/// Whether there is one: looked at without the lock.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// No node could be opened. All messages take PVM's own routes.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// After this many turns without a sleep the node looks whether the program has closed its descriptors: some system calls.
const LOOK_FOR_LOSS: u32 = 1024;

/// The program has closed descriptors of the node.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether nothing arrives any more: the program has closed descriptors of the node.
#[inline]
pub(crate) fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}

/// A turn of the progress thread of the process that has this waker.
fn turn(waker: &Arc<Waker>) -> Step {
    let mut slot = PROCESS.lock();
    match slot.as_mut().filter(|process| Arc::ptr_eq(&process.waker, waker)) {
        None => Step::End,
        // It has just begun a call, and receives itself.
        Some(_) if progress::is_inside() => Step::Again,
        Some(process) => match process.poll_away() {
            true => Step::Again,
            false => Step::Sleep,
        },
    }
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", am_c_runtime::advice(.0))]
    Open(#[from] OpenError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("no descriptor is left: {0}; raise the limit (`ulimit -n`)")]
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
            Ok(process) => {
                process.watch();
                *slot = Some(process);
            }
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
    // `exit` in a signal handler may have interrupted the call that has the lock.
    if !is_open() || PROCESS.try_lock_for(BUSY).is_none() {
        return;
    }
    wait_accepted(time);
    let process = {
        let mut slot = PROCESS.lock();
        IS_OPEN.store(false, Ordering::Relaxed);
        IS_LOST.store(false, Ordering::Relaxed);
        slot.take()
    };
    let Some(process) = process else { return };
    progress::end(&process.waker);
    if environment::wants_report() {
        environment::say(&process.report());
    }
}

/// Wait until everything that was sent has been accepted, or this time is over.
fn wait_accepted(time: Duration) {
    let until = Instant::now() + time;
    while with(Process::is_all_accepted) == Some(false)
        && !is_lost()
        && !thread_end::is_ending()
        && Instant::now() < until
    {
        // The turn comes last: it may receive what this waits for.
        let descriptor = with(|process| process.prepare_wait().then(|| process.descriptor()));
        if let Some(Some(descriptor)) = descriptor {
            wait::sleep_on(&[descriptor], Some(until.saturating_duration_since(Instant::now())));
        }
        _ = with(Process::poll);
    }
}

impl Process {
    fn open(library: &'static Library) -> Result<Process, Failure> {
        let owner = Owner::new()?;
        let own = name_of(library.own_tid());
        let open = |transport: &String| {
            let builder = Node::builder(&own).unique_name().patience(PATIENCE).keepalive(PATIENCE).ack_delay(ACK_DELAY);
            // Where no switch can learn addresses, there is no question worth a wait of 24 ms.
            let builder = if environment::has_switch(transport) { builder } else { builder.framing(Framing::Bare) };
            builder.open(transport)
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
        endpoint.on_returned(|pairs, returned| pairs.came_back(&returned.message, returned.fate));
        let descriptor = endpoint.descriptor()?;
        let (pairs, waker, bell) = (Pairs::new(library), progress::start(descriptor.clone(), turn)?, Waker::new()?);
        Ok(Process { endpoint, pairs, node, descriptor, waker, bell, tag, owner: NodeOwner::new(owner), no_sleeps: 0 })
    }

    /// Receive, and send what waits.
    pub(crate) fn poll(&mut self) -> usize {
        self.pairs.catch_up();
        let handled = self.endpoint.poll(&mut self.pairs);
        self.close_late();
        handled
    }

    fn close_late(&mut self) {
        self.pairs.late.drain(..).for_each(|connection| self.endpoint.close(connection));
    }

    /// The next whole message, if one has arrived.
    pub(crate) fn take(&mut self) -> Option<Loose> {
        let ready = self.pairs.take();
        if ready.is_some() {
            return ready;
        }
        self.poll();
        self.pairs.take()
    }

    /// A turn of the progress thread. Returns whether something has happened.
    fn poll_away(&mut self) -> bool {
        self.pairs.is_away = true;
        let handled = self.endpoint.poll(&mut self.pairs);
        self.pairs.is_away = false;
        self.close_late();
        if self.pairs.has_arrived() && watch::is_wanted() {
            self.bell.wake();
        }
        handled > 0 || !self.endpoint.prepare_wait().unwrap_or(true)
    }

    /// The longest piece of a message to this task: what a frame has room for, beside the words. `None` if there is no connection.
    pub(crate) fn longest_to(&self, task: c_int) -> Option<usize> {
        self.endpoint.frame_payload(self.pairs.stage(task).1?, WORDS)
    }

    /// Whether a sleep on the descriptor misses nothing.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        !self.pairs.has_arrived() && self.endpoint.prepare_wait().unwrap_or(false)
    }

    /// The program cannot sleep, as something seems to have arrived. A descriptor that it has closed or replaced looks like that for ever: then
    /// this is the end of its messages, and the program hears so once.
    #[inline]
    pub(crate) fn note_no_sleep(&mut self) {
        self.no_sleeps = self.no_sleeps.wrapping_add(1);
        if self.no_sleeps.is_multiple_of(LOOK_FOR_LOSS)
            && self.owner.is_lost()
            && !IS_LOST.swap(true, Ordering::Relaxed)
        {
            environment::say(
                "pvm-am: the program has closed or replaced descriptors of this library, so PVM's calls fail from now on. \
                 Let it close its own ones only, or run it without the library.",
            );
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The program waits on descriptors.
    pub(crate) fn watch(&self) {
        watch::add(self.descriptor.as_fd());
        watch::add(self.bell.as_fd());
    }

    /// What the bell was rung for is no news any more.
    pub(crate) fn silence(&self) {
        self.bell.clear();
    }

    pub(crate) fn is_all_accepted(&mut self) -> bool {
        self.pairs.connections().all(|connection| self.endpoint.is_accepted(connection))
    }

    /// This task's end of the pair is over: its connection is closed.
    pub(crate) fn end(&mut self, task: c_int) {
        if let Some(connection) = self.pairs.end(task) {
            self.endpoint.close(connection);
        }
    }

    /// The daemon has said that a task has ended: nothing of it arrives any more, and its node is not looked for.
    pub(crate) fn forget(&mut self, task: c_int) {
        let Some((connection, known)) = self.pairs.forget(task) else { return };
        // First, because a closed connection would wait for the peer's answer.
        _ = self.node.remove_peer(&known.node);
        connection.into_iter().for_each(|connection| self.endpoint.close(connection));
        // What comes back is dropped now, before another task may be known by this number.
        self.poll();
        // A frame to an address that is not known goes to all peers.
        self.endpoint.flush();
        // Another task may have got its port.
        for address in known.addresses.iter().filter(|address| !self.pairs.has_address(address)) {
            _ = self.node.remove_peer_address(address);
        }
    }

    fn report(&self) -> String {
        let (tasks, nodes) = (self.pairs.count(), self.node.peers().len());
        let addresses = self.node.counters().get("udp_places");
        let counts = self.pairs.counts.report(self.node.name(), &self.node.transport());
        format!("{counts}; {tasks} tasks, {nodes} nodes and {addresses} addresses are known")
    }
}
