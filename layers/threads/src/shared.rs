//! The state that the handles and the driver share: messages to send, waiting calls, and free buffers. One lock protects it, which no
//! thread has while it runs a handler.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use am_api::{Connection, Description, HandlerId, Incarnation, NodeWaker};
use am_base::Link;
use slotmap::{DefaultKey, SlotMap};

use crate::outcome::{RegionPost, Task};
use crate::words::Words;
use crate::{CallError, Peer, Reconnect};

/// The most requests that wait for the node's thread or for room at their receivers, and the most returned requests that wait for a thread.
/// A long one counts as several.
pub(crate) const MAX_QUEUED: usize = 4096;

/// How many requests one with this payload counts as: the queue has at most 64 MiB of long ones, and one.
pub(crate) fn weight(payload: &[u8]) -> usize {
    1 + payload.len() / MAX_SPARE
}

/// The most bytes of a buffer that is kept.
const MAX_SPARE: usize = 16 << 10;

/// The longest time to a deadline, because `Instant` cannot represent every later time. It is longer than any program runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The deadline after this time.
pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(FOREVER)
}

pub(crate) struct Shared {
    pub(crate) waker: NodeWaker,
    /// The node's thread.
    pub(crate) thread: ThreadId,
    state: Mutex<State>,
    /// Notified when requests leave the queue.
    pub(crate) room: Condvar,
    /// The number of transfers without an outcome.
    pub(crate) transfers: Arc<AtomicUsize>,
    /// Handler ids of replies. Calls cannot use them.
    pub(crate) reply_handlers: Vec<HandlerId>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Posts for the driver, which takes all of them at once.
    pub(crate) posts: VecDeque<Post>,
    /// The number of requests that were not sent yet, and of returned messages that no thread has taken, by [`weight`].
    pub(crate) queued: usize,
    pub(crate) calls: SlotMap<DefaultKey, CallSlot>,
    /// The peers, and what is known of their open connections. The driver has the rest of their state.
    pub(crate) peers: SlotMap<DefaultKey, Option<Description>>,
    /// Empty buffers, to be used again.
    pub(crate) spare: Vec<Vec<u8>>,
    /// The driver was dropped.
    pub(crate) is_closed: bool,
}

/// A request of a handle to the driver.
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
    Transfer(Peer, Task),
    Region(RegionPost),
    /// The future of a transfer was dropped.
    Cancel,
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
    /// The payload of the request. Once there is an answer, the payload of the answer.
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Instant,
    /// The waker of the task that waits for the outcome.
    pub(crate) waker: Option<Waker>,
}

/// An answer without its payload.
#[derive(Clone, Copy)]
pub(crate) struct AnswerHead {
    pub(crate) words: Words,
    pub(crate) connection: Connection,
    pub(crate) incarnation: Option<Incarnation>,
}

pub(crate) enum Phase {
    Waiting,
    /// The outcome. An answer's payload is in the slot.
    Done(Result<AnswerHead, CallError>),
    /// The call was dropped.
    Cancelled,
}

impl Shared {
    pub(crate) fn new(waker: NodeWaker, reply_handlers: Vec<HandlerId>) -> Arc<Shared> {
        let (state, room) = Default::default();
        let thread = std::thread::current().id();
        Arc::new(Shared { waker, thread, state, room, transfers: Arc::default(), reply_handlers })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it has the lock, except when memory runs out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue a post for the driver, and end its sleep.
    pub(crate) fn post(&self, mut state: MutexGuard<'_, State>, post: Post) {
        state.posts.push_back(post);
        drop(state);
        self.waker.wake();
    }

    /// As [`post`](Shared::post). If the driver was dropped, the post is dropped, which ends its transfer.
    pub(crate) fn post_or_drop(&self, post: Post) {
        let state = self.lock();
        if state.is_closed {
            drop(state);
            drop(post);
        } else {
            self.post(state, post);
        }
    }

    /// A request was sent, or a returned message was taken: there is room for others.
    pub(crate) fn leave_queue(&self, weight: usize) {
        self.lock().queued -= weight;
        if weight == 1 { self.room.notify_one() } else { self.room.notify_all() }
    }

    /// Whether the calling thread is the node's, which must not wait for itself.
    pub(crate) fn is_own_thread(&self) -> bool {
        std::thread::current().id() == self.thread
    }

    /// The driver is dropped: end all calls.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let posts = mem::take(&mut state.posts);
        let mut wakers = Vec::new();
        let keys: Vec<_> = state.calls.keys().collect();
        keys.into_iter().for_each(|key| wakers.extend(state.finish(key, Err(CallError::NodeDropped))));
        drop(state);
        // This wakes those that wait for transfers, which runs code of the program.
        drop(posts);
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

    /// Keep a buffer for the next message, unless it is a long message's.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if (1..=MAX_SPARE).contains(&buffer.capacity()) && self.spare.len() < MAX_QUEUED {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Set the outcome of a call, unless it has one already. Returns the waker of the task that waits for it.
    pub(crate) fn finish(&mut self, key: DefaultKey, result: Result<AnswerHead, CallError>) -> Option<Waker> {
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
