//! Messages of this process to itself.
//!
//! Pushed by: requests to an endpoint of this process, and their replies. Popped by: polls of the receiver's bundle. Bounded by:
//! [`MAX_LOCAL`] bytes of requests to each endpoint, and as many of replies and one reply more. When full: a request waits for room, and a
//! request's handler for the room of its reply.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::header::{Kind, MAX_LONG};
use crate::tables::Handle;

/// The most bytes of messages that wait. One message always has room.
const MAX_LOCAL: usize = MAX_LONG;

/// A message of this process to itself.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) kind: Kind,
    pub(crate) words: [u64; 4],
    pub(crate) payload: Vec<u8>,
    pub(crate) is_reply: bool,
    pub(crate) from: Handle,
    /// The request's translation, at the endpoint that sent it.
    pub(crate) index: usize,
}

impl Local {
    fn bytes(&self) -> usize {
        size_of::<Local>() + self.payload.len()
    }
}

/// Of one class.
#[derive(Debug, Default)]
struct Queue {
    messages: RefCell<VecDeque<Local>>,
    bytes: Cell<usize>,
}

impl Queue {
    fn push(&self, local: Local) {
        self.bytes.set(self.bytes.get() + local.bytes());
        self.messages.borrow_mut().push_back(local);
    }

    fn pop_if(&self, may_run: impl Fn(Handle) -> bool) -> Option<Local> {
        let mut messages = self.messages.borrow_mut();
        let at = messages.iter().position(|local| may_run(local.from))?;
        let local = messages.remove(at)?;
        self.bytes.set(self.bytes.get() - local.bytes());
        Some(local)
    }

    fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }
}

/// Those that wait in an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    requests: Queue,
    replies: Queue,
}

impl Locals {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty()
    }

    pub(crate) fn push(&self, local: Local) {
        let queue = if local.is_reply { &self.replies } else { &self.requests };
        queue.push(local);
    }

    /// Whether a request of this length has room.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.requests.is_empty() || self.requests.bytes.get() + size_of::<Local>() + bytes <= MAX_LOCAL
    }

    /// Whether one more reply has room, however long it is.
    pub(crate) fn has_room_for_reply(&self) -> bool {
        self.replies.bytes.get() < MAX_LOCAL
    }

    /// The next message, replies first. Requests wait whose senders have no room for a reply; `has_room` says which have.
    pub(crate) fn pop(&self, has_room: impl Fn(Handle) -> bool) -> Option<Local> {
        self.replies.pop_if(|_| true).or_else(|| self.requests.pop_if(has_room))
    }
}
