//! The received messages and events of a shared endpoint, and the handlers that its threads run for them.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_api::{Class, ConnectionChange, EndpointName, HandlerId, OwnedMessage, RegionId, TransferError, TransferKind};

use crate::shared::{Shared, weight};
use crate::words::Words;
use crate::{CallError, Peer, SendToken};

type OnRequest = Box<dyn Fn(SharedRequest) + Send + Sync>;
type OnMessage = Box<dyn Fn(SharedMessage) + Send + Sync>;
type OnReturned = Box<dyn Fn(SharedReturned) + Send + Sync>;
type OnTransfer = Box<dyn Fn(SharedTransferEvent) + Send + Sync>;
type OnConnection = Box<dyn Fn(SharedConnectionEvent) + Send + Sync>;

/// The handlers of a shared endpoint. Several threads may run one handler at the same time, so state that a handler changes needs a lock or
/// atomics.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use am_api::HandlerId;
/// use am_threads::Handlers;
///
/// const ADD: HandlerId = HandlerId(0);
///
/// fn adds(sum: Arc<AtomicU64>) -> Handlers {
///     Handlers::new().on_request(ADD, move |request| {
///         let before = sum.fetch_add(request.message.word(0), Relaxed);
///         request.token.reply(ADD, &[before], b"").unwrap_or_else(|error| eprintln!("{error}"));
///     })
/// }
/// ```
#[derive(Default)]
#[must_use = "they do nothing before `share`"]
pub struct Handlers {
    pub(crate) requests: Vec<(HandlerId, OnRequest)>,
    pub(crate) replies: Vec<(HandlerId, OnMessage)>,
    pub(crate) returned: Option<OnReturned>,
    pub(crate) connection: Option<OnConnection>,
    pub(crate) transfer: Option<OnTransfer>,
    pub(crate) are_on_driver: bool,
}

impl Handlers {
    /// No handlers. This is enough for an endpoint that only [calls](crate::SharedEndpoint::call).
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Run this for requests that name `handler`.
    pub fn on_request(mut self, handler: HandlerId, run: impl Fn(SharedRequest) + Send + Sync + 'static) -> Handlers {
        self.requests.retain(|(id, _)| *id != handler);
        self.requests.push((handler, Box::new(run)));
        self
    }

    /// Run this for replies that name `handler`. Answers to [calls](crate::SharedEndpoint::call) need another id.
    pub fn on_reply(mut self, handler: HandlerId, run: impl Fn(SharedMessage) + Send + Sync + 'static) -> Handlers {
        self.replies.retain(|(id, _)| *id != handler);
        self.replies.push((handler, Box::new(run)));
        self
    }

    /// Run this for requests and replies that could not be sent or delivered. A call has its outcome instead.
    pub fn on_returned(mut self, run: impl Fn(SharedReturned) + Send + Sync + 'static) -> Handlers {
        self.returned = Some(Box::new(run));
        self
    }

    /// Run this when a connection of this endpoint opens, fails or ends.
    pub fn on_connection(mut self, run: impl Fn(SharedConnectionEvent) + Send + Sync + 'static) -> Handlers {
        self.connection = Some(Box::new(run));
        self
    }

    /// Run this when a peer's put into a region of this endpoint, or its get out of one, has ended.
    pub fn on_transfer(mut self, run: impl Fn(SharedTransferEvent) + Send + Sync + 'static) -> Handlers {
        self.transfer = Some(Box::new(run));
        self
    }

    /// Run all these handlers on the node's thread, in the driver's [`poll`](crate::Driver::poll), instead of on threads that
    /// [`poll`](crate::SharedEndpoint::poll) or [`wait`](crate::SharedEndpoint::wait). A message needs no other thread then, and no two handlers
    /// run at the same time. While one runs, nothing is received. So a handler that takes long hands its request, with its token, to
    /// another thread or to a task (`examples/awaits.rs`). On this thread, waits for calls fail with
    /// [`OnNodeThread`](CallError::OnNodeThread).
    pub fn on_driver(mut self) -> Handlers {
        self.are_on_driver = true;
        self
    }

    /// The ids of replies.
    pub(crate) fn replies(&self) -> Vec<HandlerId> {
        self.replies.iter().map(|(id, _)| *id).collect()
    }

    /// Run the handler of this item.
    pub(crate) fn run(&self, item: Item) {
        match item {
            Item::Request(request) => {
                let of = request.message.handler();
                if let Some((_, run)) = self.requests.iter().find(|(id, _)| *id == of) {
                    run(request);
                }
            }
            Item::Reply(message) => {
                if let Some((_, run)) = self.replies.iter().find(|(id, _)| *id == message.handler()) {
                    run(message);
                }
            }
            Item::Returned(returned) => {
                if let Some(run) = &self.returned {
                    run(returned);
                }
            }
            Item::Connection(event) => {
                if let Some(run) = &self.connection {
                    run(event);
                }
            }
            Item::Transfer(event) => {
                if let Some(run) = &self.transfer {
                    run(event);
                }
            }
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

/// A message for a thread of a shared endpoint, in its frame. It derefs to its payload. Dropping it releases its credit.
#[derive(Debug)]
pub struct SharedMessage {
    pub(crate) message: OwnedMessage,
    pub(crate) from: Peer,
}

impl SharedMessage {
    /// Its word arguments.
    pub fn words(&self) -> &[u64] {
        self.message.words()
    }

    /// The word argument with this index; 0 if the message has fewer words.
    pub fn word(&self, at: usize) -> u64 {
        self.message.word(at)
    }

    /// The handler that it names.
    pub fn handler(&self) -> HandlerId {
        self.message.handler()
    }

    /// Its sender. Requests may be sent to it.
    pub fn from(&self) -> Peer {
        self.from
    }
}

impl Deref for SharedMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message
    }
}

/// A request for a thread of a shared endpoint, with the right to reply.
#[derive(Debug)]
pub struct SharedRequest {
    /// The message.
    pub message: SharedMessage,
    /// The right to reply, from any thread. Dropping it declines the reply.
    pub token: SendToken,
}

/// A message that was not sent, or returned.
#[derive(Clone, Debug)]
pub struct SharedReturned {
    /// Its destination.
    pub to: Peer,
    /// Request or reply.
    pub class: Class,
    /// The handler that it named.
    pub handler: HandlerId,
    pub(crate) words: Words,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Why it was not sent, or why it returned.
    pub why: CallError,
}

impl SharedReturned {
    /// Its word arguments.
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }
}

/// A connection of a shared endpoint opened, failed or ended.
#[derive(Clone, Copy, Debug)]
pub struct SharedConnectionEvent {
    /// The peer.
    pub peer: Peer,
    /// What happened.
    pub change: ConnectionChange,
    /// The endpoint at the other side.
    pub name: EndpointName,
}

/// A peer's transfer into or out of a region of a shared endpoint has ended.
#[derive(Clone, Copy, Debug)]
pub struct SharedTransferEvent {
    /// The peer.
    pub peer: Peer,
    /// [`Deposited`](TransferKind::Deposited) or [`Served`](TransferKind::Served).
    pub kind: TransferKind,
    /// The region that was written: one of this endpoint if it is [`Deposited`](TransferKind::Deposited), otherwise one of the peer.
    pub region: RegionId,
    /// The start of the transfer in that region.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// How it ended.
    pub result: Result<(), TransferError>,
    /// How many such events before this one were dropped, because no thread took them.
    pub dropped: u64,
}

/// Something for a handler.
pub(crate) enum Item {
    Transfer(SharedTransferEvent),
    Request(SharedRequest),
    Reply(SharedMessage),
    Returned(SharedReturned),
    Connection(SharedConnectionEvent),
}

/// The items that wait for a thread, and the handlers that the thread runs for them.
pub(crate) struct Inbox {
    pub(crate) handlers: Handlers,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

/// In a queue of this length, events of transfers are dropped, and the events of a connection that opened and ended before a thread took them cancel each other.
const MAX_UNSEEN: usize = 4096;

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The number of waiting threads.
    waiting: usize,
    /// Events of transfers that were dropped since the last one that was queued.
    dropped_transfers: u64,
    is_closed: bool,
}

impl Queue {
    /// Queue an item. Credits bound the messages, but peers can connect and leave without limit, so their events are combined.
    fn push(&mut self, mut item: Item) {
        if let Item::Transfer(event) = &mut item {
            if self.items.len() >= MAX_UNSEEN {
                self.dropped_transfers += 1;
                return;
            }
            event.dropped = mem::take(&mut self.dropped_transfers);
        }
        if self.items.len() >= MAX_UNSEEN
            && let Item::Connection(SharedConnectionEvent { peer, change: ConnectionChange::Ended(_), .. }) = &item
        {
            let is_begin = |item: &Item| matches!(item, Item::Connection(event) if event.peer == *peer && event.change == ConnectionChange::Accepted);
            if let Some(unseen) = self.items.iter().rposition(is_begin) {
                self.items.remove(unseen);
                return;
            }
        }
        self.items.push_back(item);
    }
}

impl Inbox {
    pub(crate) fn new(handlers: Handlers) -> Inbox {
        Inbox { handlers, queue: Mutex::default(), arrived: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue these items, and wake one waiting thread for each.
    pub(crate) fn append(&self, items: &mut Vec<Item>) {
        let count = items.len();
        let mut queue = self.lock();
        items.drain(..).for_each(|item| queue.push(item));
        let waiting = queue.waiting;
        drop(queue);
        (0..count.min(waiting)).for_each(|_| self.arrived.notify_one());
    }

    /// Run the handler of this item.
    pub(crate) fn run(&self, shared: &Shared, item: Item) {
        if let Item::Returned(returned) = &item {
            shared.leave_queue(weight(&returned.payload));
        }
        self.handlers.run(item);
    }

    /// The oldest item, if there is one.
    pub(crate) fn pop(&self) -> Option<Item> {
        self.lock().items.pop_front()
    }

    /// The oldest item. Waits for one, until the time is over or the driver is dropped.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Item> {
        let until = Instant::now().checked_add(timeout);
        let mut queue = self.lock();
        loop {
            if let Some(item) = queue.items.pop_front() {
                return Some(item);
            }
            let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() || queue.is_closed {
                return None;
            }
            queue.waiting += 1;
            queue = self.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
            queue.waiting -= 1;
        }
    }

    /// Drop all items, because no thread will take them.
    pub(crate) fn clear(&self) {
        let items = mem::take(&mut self.lock().items);
        // Drop them without the lock, because the drop of a token posts to the driver.
        drop(items);
    }

    /// Nothing more will arrive.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
        self.clear();
    }
}
