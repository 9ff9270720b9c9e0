//! What the handles and the driver share: messages to send, calls that wait, and free buffers. All of it is behind one lock, which
//! nobody holds while a handler runs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use am_api::{HandlerId, NodeWaker};
use am_base::Link;
use slotmap::{DefaultKey, SlotMap};

use crate::words::Words;
use crate::{CallError, Peer, Reconnect};

/// The most requests that wait for the node's thread, for room at their receivers, or, having come back, for a thread that takes them.
pub(crate) const MAX_QUEUED: usize = 4096;

/// Longer than any program runs: a deadline that no clock can show is this far.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A deadline.
pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(FOREVER)
}

pub(crate) struct Shared {
    pub(crate) waker: NodeWaker,
    /// The node's thread.
    pub(crate) thread: ThreadId,
    state: Mutex<State>,
    /// Requests have left the queue.
    pub(crate) room: Condvar,
    /// Handler ids that calls cannot have.
    pub(crate) reply_handlers: Vec<HandlerId>,
}

#[derive(Default)]
pub(crate) struct State {
    /// For the driver, which takes all at once.
    pub(crate) posts: VecDeque<Post>,
    /// Requests in `posts`, those that the driver has taken and not sent, and messages that came back and that no thread has taken.
    pub(crate) queued: usize,
    pub(crate) calls: SlotMap<DefaultKey, CallSlot>,
    /// The keys of peers. All else about them is the driver's.
    pub(crate) peers: SlotMap<DefaultKey, ()>,
    /// Buffers that kept their memory.
    pub(crate) spare: Vec<Vec<u8>>,
    /// The driver was dropped.
    pub(crate) is_closed: bool,
}

/// What a handle asks of the driver.
pub(crate) enum Post {
    Connect {
        peer: Peer,
        link: Link,
        reconnect: Reconnect,
    },
    Close(Peer),
    Request(Peer, Body),
    Call(DefaultKey, Peer),
    Reply(DefaultKey, Body),
    /// A token was dropped.
    Decline(DefaultKey),
}

/// A message to be sent.
pub(crate) struct Body {
    pub(crate) handler: HandlerId,
    pub(crate) words: Words,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct CallSlot {
    pub(crate) phase: Phase,
    pub(crate) handler: HandlerId,
    pub(crate) words: Words,
    /// Of the request; once there is one, of the answer.
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Instant,
    /// Who waits for the outcome.
    pub(crate) waker: Option<Waker>,
}

pub(crate) enum Phase {
    Waiting,
    /// The outcome: the answer's words, and its payload in the slot.
    Done(Result<Words, CallError>),
    /// Nobody waits.
    Cancelled,
}

impl Shared {
    pub(crate) fn new(waker: NodeWaker, reply_handlers: Vec<HandlerId>) -> Arc<Shared> {
        let (state, room) = Default::default();
        let thread = std::thread::current().id();
        Arc::new(Shared { waker, thread, state, room, reply_handlers })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, other than for lack of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave something for the driver, and end its sleep.
    pub(crate) fn post(&self, mut state: MutexGuard<'_, State>, post: Post) {
        state.posts.push_back(post);
        drop(state);
        self.waker.wake();
    }

    /// A request was sent, or a message that came back was taken: there is room for another.
    pub(crate) fn leave_queue(&self) {
        self.lock().queued -= 1;
        self.room.notify_one();
    }

    /// Whether the calling thread is the node's, which must not wait for itself.
    pub(crate) fn is_own_thread(&self) -> bool {
        std::thread::current().id() == self.thread
    }

    /// The driver is gone: nothing is left without an outcome.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.posts.clear();
        let mut wakers = Vec::new();
        let keys: Vec<_> = state.calls.keys().collect();
        keys.into_iter().for_each(|key| wakers.extend(state.finish(key, Err(CallError::NodeDropped))));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.room.notify_all();
    }
}

impl State {
    /// A buffer with these bytes.
    pub(crate) fn buffer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Take a buffer back, for the next message.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare.len() < MAX_QUEUED {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The outcome of a call, unless it has one. Returns who waits for it.
    pub(crate) fn finish(&mut self, key: DefaultKey, result: Result<Words, CallError>) -> Option<Waker> {
        let slot = self.calls.get_mut(key)?;
        match slot.phase {
            Phase::Waiting => {
                slot.phase = Phase::Done(result);
                slot.waker.take()
            }
            Phase::Done(_) => None,
            Phase::Cancelled => {
                self.remove_call(key);
                None
            }
        }
    }

    pub(crate) fn remove_call(&mut self, key: DefaultKey) {
        if let Some(slot) = self.calls.remove(key) {
            self.recycle(slot.payload);
        }
    }
}
