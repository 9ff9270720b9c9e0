//! What waits to leave by a connection, and the requests that wait until that has left.
//!
//! ```text
//!   a handler replies with several frames ──▶ messages ──▶ as the peer has room
//!   the same peer asks again ───────────────▶ requests ──▶ their handlers, once fewer bytes wait
//! ```
//!
//! Pushed by: replies that need several frames or find others before them, and messages that go back. Popped by: every poll.
//! Bounded by: [`MAX_WAITING`] bytes and one reply for each connection, and [`MAX_IN_ALL`] bytes and one reply for all, with those that
//! the node keeps because the peer does not have all of them. When full: the next request waits with its credit, so its sender stops. A
//! request that is longer than a frame has no credit, so at most [`MAX_WAITING_REQUESTS`] bytes of them wait for each connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_api::{Connection, OwnedMessage, Token};

use crate::header::Kind;
use crate::name::Name;

/// Requests of a connection wait while at least this many bytes wait to leave by it.
const MAX_WAITING: usize = 1 << 20;
/// Bytes of requests that wait on a connection: a quarter of what a node has for long messages.
const MAX_WAITING_REQUESTS: usize = 16 << 20;
/// While the node keeps long replies for a connection whose requests all wait, one of them releases its credit each time this is over:
/// the peer needs one to ask for the rest of a reply. A peer of this library has reserved one (`send.rs`).
const CREDIT_EVERY: Duration = Duration::from_millis(10);
/// All requests wait while at least this many bytes wait to leave the process.
const MAX_IN_ALL: usize = 1 << 28;

/// How a queued message leaves.
#[derive(Debug)]
pub(crate) enum By {
    /// As a request on its connection. Where it is the answer to a reply, that one's credit stays here until it has left.
    Request(Option<OwnedMessage>),
    /// As the reply that this token permits.
    Token(Token),
}

/// A message that a handler sent, and that waits for a poll.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) by: By,
    pub(crate) kind: Kind,
    pub(crate) words: [u64; 4],
    pub(crate) payload: Vec<u8>,
}

impl Queued {
    fn bytes(&self) -> usize {
        size_of::<Queued>() + self.payload.len()
    }
}

/// A request whose handler waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) kind: Kind,
    pub(crate) from: Connection,
    pub(crate) words: [u64; 4],
    pub(crate) payload: Kept,
    /// The data lies in the segment already.
    pub(crate) is_placed: bool,
    pub(crate) token: Token,
    pub(crate) source: Option<Name>,
}

/// The payload of a request that waits.
#[derive(Debug)]
pub(crate) enum Kept {
    /// With its credit.
    Message(OwnedMessage),
    /// Without.
    Copy(Vec<u8>),
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Kept::Message(message) => message,
            Kept::Copy(bytes) => bytes,
        }
    }
}

/// Of one connection.
#[derive(Debug, Default)]
struct Line {
    messages: VecDeque<Queued>,
    /// Bytes of these messages, and those that the node keeps.
    bytes: usize,
    /// Bytes of long replies that the node keeps.
    kept: usize,
    requests: VecDeque<Waiting>,
    /// Bytes of the requests' payloads.
    request_bytes: usize,
    /// When a request last released its credit, or the first one had to wait.
    released: Option<Instant>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.requests.is_empty() && self.kept == 0
    }

    /// Whether it has a request whose handler may run, as far as this connection is concerned.
    fn has_request(&self) -> bool {
        !self.requests.is_empty() && self.bytes < MAX_WAITING
    }

    fn take_requests(&mut self) -> VecDeque<Waiting> {
        self.request_bytes = 0;
        mem::take(&mut self.requests)
    }

    /// Release the credit of a request if it is time.
    fn release_credit(&mut self) {
        if self.kept == 0 || self.requests.is_empty() || self.bytes < MAX_WAITING {
            self.released = None;
            return;
        }
        let now = Instant::now();
        if now - *self.released.get_or_insert(now) < CREDIT_EVERY {
            return;
        }
        self.released = Some(now);
        if let Some(first) = self.requests.iter_mut().find(|request| matches!(request.payload, Kept::Message(_))) {
            first.payload = Kept::Copy(first.payload.to_vec());
        }
    }
}

/// What waits in all endpoints of the process.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    bytes: Cell<usize>,
    requests: Cell<usize>,
}

impl Totals {
    fn add(total: &Cell<usize>, more: usize) {
        total.set(total.get() + more);
    }

    fn take(total: &Cell<usize>, less: usize) {
        total.set(total.get() - less);
    }

    /// Whether any message waits to leave.
    pub(crate) fn has_messages(&self) -> bool {
        self.bytes.get() > 0
    }

    /// The requests that wait, each with a token.
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }
}

/// Of one endpoint. No method calls anything that could come back here, so a borrow ends with its method.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The connection whose turn is next is first. None is empty.
    lines: RefCell<VecDeque<(Connection, Line)>>,
    totals: Rc<Totals>,
}

impl Lines {
    pub(crate) fn new(totals: Rc<Totals>) -> Lines {
        Lines { lines: RefCell::default(), totals }
    }

    fn with<T>(&self, connection: Connection, work: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut lines = self.lines.borrow_mut();
        let at = lines.iter().position(|(of, _)| *of == connection)?;
        let result = work(&mut lines[at].1);
        if lines[at].1.is_empty() {
            lines.remove(at);
        }
        Some(result)
    }

    fn with_new<T>(&self, connection: Connection, work: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut lines = self.lines.borrow_mut();
        if lines.iter().all(|(of, _)| *of != connection) {
            lines.push_back((connection, Line::default()));
        }
        drop(lines);
        self.with(connection, work)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.borrow().is_empty()
    }

    /// The connections by which something leaves, each first in its turn.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let mut lines = self.lines.borrow_mut();
        if lines.len() > 1 {
            lines.rotate_left(1);
        }
        let is_leaving = |(_, line): &&(Connection, Line)| !line.messages.is_empty() || line.kept > 0;
        lines.iter().filter(is_leaving).map(|(of, _)| *of).collect()
    }

    /// The bytes that wait to leave.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.borrow().iter().map(|(_, line)| line.bytes).sum()
    }

    /// Whether a message waits to leave by this connection: the next one stands behind it.
    pub(crate) fn has_messages(&self, connection: Connection) -> bool {
        let lines = self.lines.borrow();
        lines.iter().any(|(of, line)| *of == connection && !line.messages.is_empty())
    }

    /// Whether the handler of a request that has just arrived on this connection may run.
    pub(crate) fn has_room(&self, connection: Connection) -> bool {
        let is_free = |(of, line): &(Connection, Line)| {
            *of != connection || (line.requests.is_empty() && line.bytes < MAX_WAITING)
        };
        self.totals.bytes.get() < MAX_IN_ALL && self.lines.borrow().iter().all(is_free)
    }

    /// The node keeps this many bytes of long replies for the connection.
    pub(crate) fn set_kept(&self, connection: Connection, kept: usize) {
        let change = |line: &mut Line| {
            let before = mem::replace(&mut line.kept, kept);
            line.bytes = line.bytes - before + kept;
            line.release_credit();
            before
        };
        let before = if kept > 0 { self.with_new(connection, change) } else { self.with(connection, change) };
        if let Some(before) = before {
            Totals::take(&self.totals.bytes, before);
            Totals::add(&self.totals.bytes, kept);
        }
    }

    /// Whether it keeps any.
    pub(crate) fn has_kept(&self) -> bool {
        self.lines.borrow().iter().any(|(_, line)| line.kept > 0)
    }

    /// It keeps this many more.
    pub(crate) fn keep_more(&self, connection: Connection, more: usize) {
        let kept = self.with(connection, |line| line.kept).unwrap_or(0);
        self.set_kept(connection, kept + more);
    }

    /// Whether a request of this length may wait behind those that wait on this connection.
    pub(crate) fn may_wait(&self, connection: Connection, bytes: usize) -> bool {
        let lines = self.lines.borrow();
        let line = lines.iter().find(|(of, _)| *of == connection);
        let waiting = line.map_or(0, |(_, line)| line.request_bytes);
        waiting == 0 || waiting + bytes <= MAX_WAITING_REQUESTS
    }

    pub(crate) fn push(&self, connection: Connection, message: Queued) {
        self.put(connection, message, VecDeque::push_back);
    }

    fn put(&self, connection: Connection, message: Queued, to: impl FnOnce(&mut VecDeque<Queued>, Queued)) {
        let bytes = message.bytes();
        Totals::add(&self.totals.bytes, bytes);
        self.with_new(connection, |line| {
            line.bytes += bytes;
            to(&mut line.messages, message);
        });
    }

    /// The next message that leaves by this connection.
    pub(crate) fn pop(&self, connection: Connection) -> Option<Queued> {
        let message = self.with(connection, |line| {
            let message = line.messages.pop_front()?;
            line.bytes -= message.bytes();
            Some(message)
        })??;
        Totals::take(&self.totals.bytes, message.bytes());
        Some(message)
    }

    /// It could not leave now.
    pub(crate) fn put_back(&self, connection: Connection, message: Queued) {
        self.put(connection, message, VecDeque::push_front);
    }

    /// The connection has ended: nothing leaves by it. The requests that arrived on it are handled all the same.
    pub(crate) fn forget(&self, connection: Connection) {
        while self.pop(connection).is_some() {}
        self.set_kept(connection, 0);
    }

    pub(crate) fn push_request(&self, connection: Connection, request: Waiting) {
        Totals::add(&self.totals.requests, 1);
        self.with_new(connection, |line| {
            line.request_bytes += request.payload.len();
            line.requests.push_back(request);
        });
    }

    /// The next request whose handler may run now. The connections take turns.
    pub(crate) fn next_request(&self) -> Option<Waiting> {
        if self.totals.requests() == 0 || self.totals.bytes.get() >= MAX_IN_ALL {
            return None;
        }
        let mut lines = self.lines.borrow_mut();
        let at = lines.iter().position(|(_, line)| line.has_request())?;
        let (connection, mut line) = lines.remove(at)?;
        let request = line.requests.pop_front();
        line.request_bytes -= request.as_ref().map_or(0, |request| request.payload.len());
        if !line.is_empty() {
            lines.push_back((connection, line));
        }
        Totals::take(&self.totals.requests, 1);
        request
    }

    /// Whether there is one.
    pub(crate) fn has_request(&self) -> bool {
        self.totals.bytes.get() < MAX_IN_ALL && self.lines.borrow().iter().any(|(_, line)| line.has_request())
    }

    /// All requests: none of their handlers will run.
    pub(crate) fn take_requests(&self) -> Vec<Waiting> {
        let mut lines = self.lines.borrow_mut();
        let requests: Vec<_> = lines.iter_mut().flat_map(|(_, line)| line.take_requests()).collect();
        lines.retain(|(_, line)| !line.is_empty());
        Totals::take(&self.totals.requests, requests.len());
        requests
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        Totals::take(&self.totals.bytes, self.bytes());
        drop(self.take_requests());
    }
}
