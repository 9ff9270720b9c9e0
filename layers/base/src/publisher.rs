//! The sending half of fan-out: a queue for each subscriber, and one buffer for all of them.
//!
//! ```text
//!   publish(key, payload) ──▶ queue of subscriber 1 ──▶ as many under way as its window allows
//!                        ├──▶ queue of subscriber 2 ──▶
//!                        └──▶ ...                        handled: credit comes back
//! ```

use std::cell::{RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Connection, Endpoint, Events, HandlerId, Message, RequestError, WINDOW};

/// The words of a published message that are the publisher's own: all but the count of missed ones and the key.
const MAX_WORDS: usize = 2;

/// What a subscriber wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Each message, in order. If its queue is full, the oldest one is dropped.
    All,
    /// The latest message of each key. It takes the place of one that still waits, so the message that was published last may arrive
    /// before older ones of other keys.
    Latest,
}

/// The meaning of a subscription's second word.
pub(crate) const ALL: u64 = 0;
pub(crate) const LATEST: u64 = 1;
pub(crate) const NOTHING: u64 = 2;

/// Sends each message to all endpoints that have subscribed with [`Subscriptions`](crate::Subscriptions). A slow one neither loses its
/// connection nor delays others: what waits for it is bounded, and what it misses is counted. `docs/fan-out.md` has the rules.
///
/// ```
/// use am_api::{Endpoint, HandlerId};
/// use am_base::Publisher;
///
/// const PRICES: HandlerId = HandlerId(0);
///
/// /// `key` is the number of a share. 1,000 messages may wait for each subscriber.
/// fn serve(endpoint: &mut Endpoint<()>, mut next: impl FnMut() -> Option<(u64, String)>) {
///     let prices = Publisher::new(endpoint, PRICES, 1000);
///     while let Some((key, price)) = next() {
///         prices.publish(endpoint, key, &[], price.into_bytes()).expect("no words");
///         prices.wait(endpoint, &mut (), std::time::Duration::ZERO);
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Publisher(Rc<RefCell<State>>);

/// What has happened to the messages of a [`Publisher`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherCounters {
    /// Messages sent, counted for each subscriber.
    pub sent: u64,
    /// Messages that were dropped for a subscriber, because its queue was full or a newer one took their place.
    pub missed: u64,
    /// Of these, those that were longer than the subscriber's node [accepts](am_api::Builder::max_message).
    pub too_long: u64,
    /// Subscribers whose connection ended.
    pub gone: u64,
    /// Messages that waited for these.
    pub lost: u64,
}

/// A subscriber of a [`Publisher`], and how far behind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Its connection.
    pub connection: Connection,
    /// What it wants.
    pub wanted: Wanted,
    /// The most messages that it lets be under way; 0 while it pauses.
    pub window: usize,
    /// Messages that were sent, and that it has not reported as handled.
    pub under_way: u64,
    /// Messages that wait.
    pub waiting: usize,
    /// Messages that were sent to it.
    pub sent: u64,
    /// Messages that it has missed.
    pub missed: u64,
}

struct State {
    handler: HandlerId,
    /// The most messages that wait for one subscriber.
    most_waiting: usize,
    records: HashMap<Connection, Record>,
    /// Subscribers with messages that their window allows, each once.
    sendable: Vec<Connection>,
    counters: PublisherCounters,
}

/// A connection that has subscribed. It stays when the subscription ends, because messages may still be under way.
#[derive(Default)]
struct Record {
    wanted: Option<Wanted>,
    window: u64,
    sent: u64,
    /// How many of the sent ones it has reported as handled.
    handled: u64,
    missed: u64,
    waiting: VecDeque<Rc<Published>>,
    is_listed: bool,
}

struct Published {
    key: u64,
    words: [u64; MAX_WORDS],
    count: usize,
    payload: Rc<[u8]>,
}

impl Record {
    fn push(&mut self, message: &Rc<Published>, most_waiting: usize, counters: &mut PublisherCounters) {
        let replaces = self.wanted == Some(Wanted::Latest);
        let mut missed = 0;
        match self.waiting.iter_mut().find(|waiting| replaces && waiting.key == message.key) {
            Some(older) => {
                *older = message.clone();
                missed = 1;
            }
            None => {
                while self.waiting.len() >= most_waiting {
                    self.waiting.pop_front();
                    missed += 1;
                }
                self.waiting.push_back(message.clone());
            }
        }
        self.missed += missed;
        counters.missed += missed;
    }

    fn under_way(&self) -> u64 {
        self.sent - self.handled
    }

    fn can_send(&self) -> bool {
        !self.waiting.is_empty() && self.under_way() < self.window
    }

    /// The subscriber has handled this many. A wrong number harms only its sender.
    fn set_handled(&mut self, handled: u64) {
        self.handled = handled.clamp(self.handled, self.sent);
    }
}

impl Publisher {
    /// Publish from this endpoint, to all that subscribe under `handler`. At most `most_waiting` messages wait for each of them.
    ///
    /// The endpoint's handlers for requests and replies of this id are taken, and [`Events::CAN_SEND`] is added to its mask.
    pub fn new<S>(endpoint: &mut Endpoint<S>, handler: HandlerId, most_waiting: usize) -> Publisher {
        let (records, sendable, counters) = Default::default();
        let most_waiting = most_waiting.max(1);
        let state = Rc::new(RefCell::new(State { handler, most_waiting, records, sendable, counters }));
        let (for_requests, for_replies) = (Publisher(state.clone()), Publisher(state.clone()));
        endpoint.on_request(handler, move |_, request| for_requests.on_subscription(&request.message));
        endpoint.on_reply(handler, move |_, reply| for_replies.on_credit(&reply));
        endpoint.set_event_mask(endpoint.event_mask() | Events::CAN_SEND);
        Publisher(state)
    }

    /// Send a message to all subscribers, with up to two words. To those that have no room now, [`pump`](Publisher::pump) sends it later.
    /// Returns the number of subscribers.
    ///
    /// # Errors
    /// [`TooManyWords`](RequestError::TooManyWords).
    pub fn publish<S>(
        &self,
        endpoint: &Endpoint<S>,
        key: u64,
        words: &[u64],
        payload: impl Into<Rc<[u8]>>,
    ) -> Result<usize, RequestError> {
        let (count, mut all) = (words.len(), [0; MAX_WORDS]);
        let too_many = RequestError::TooManyWords { count, most: MAX_WORDS };
        all.get_mut(..count).ok_or(too_many)?.copy_from_slice(words);
        let message = Rc::new(Published { key, words: all, count, payload: payload.into() });
        let mut state = self.state();
        state.drop_ended(endpoint);
        let State { records, sendable, counters, most_waiting, .. } = &mut *state;
        let mut subscribers = 0;
        for (&to, record) in records.iter_mut().filter(|(_, record)| record.wanted.is_some()) {
            record.push(&message, *most_waiting, counters);
            subscribers += 1;
            list(to, record, sendable);
        }
        state.send(endpoint);
        Ok(subscribers)
    }

    /// Send what waits, as far as subscribers have room. Returns how many messages were sent. Call it after each poll of the endpoint, or
    /// use [`wait`](Publisher::wait).
    pub fn pump<S>(&self, endpoint: &Endpoint<S>) -> usize {
        self.state().send(endpoint)
    }

    /// Poll the endpoint, and send what waits. If there is nothing to do, wait, at most for this time. Returns how many messages and
    /// events were handled or sent.
    pub fn wait<S>(&self, endpoint: &mut Endpoint<S>, state: &mut S, timeout: Duration) -> usize {
        let mut turn = |endpoint: &mut Endpoint<S>| {
            let (handled, sent) = (endpoint.poll(state), self.pump(endpoint));
            endpoint.flush();
            handled + sent
        };
        match turn(endpoint) {
            0 => {
                endpoint.wait_events(timeout);
                turn(endpoint)
            }
            done => done,
        }
    }

    /// The subscribers whose connections are open, in no order.
    pub fn subscribers<S>(&self, endpoint: &Endpoint<S>) -> Vec<Subscriber> {
        let of = |(&connection, record): (&Connection, &Record)| {
            let &Record { wanted, window, sent, missed, .. } = record;
            let (under_way, waiting, window) = (record.under_way(), record.waiting.len(), window as usize);
            Some(Subscriber { connection, wanted: wanted?, window, under_way, waiting, sent, missed })
        };
        let mut state = self.state();
        state.drop_ended(endpoint);
        state.records.iter().filter_map(of).collect()
    }

    /// Whether the nodes of all subscribers have accepted all that was sent, and no message waits here, except for those with a window
    /// of 0. A program that is about to end waits until this is true.
    pub fn is_accepted<S>(&self, endpoint: &Endpoint<S>) -> bool {
        let mut state = self.state();
        state.drop_ended(endpoint);
        let waits = |record: &Record| record.window > 0 && !record.waiting.is_empty();
        state.records.iter().all(|(&to, record)| !waits(record) && endpoint.is_accepted(to))
    }

    /// What has happened so far.
    pub fn counters<S>(&self, endpoint: &Endpoint<S>) -> PublisherCounters {
        let mut state = self.state();
        state.drop_ended(endpoint);
        state.counters
    }

    /// No handler of the program runs while it is borrowed.
    fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// A peer subscribes, ends its subscription, or has another window.
    fn on_subscription<S>(&self, message: &Message<'_, S>) {
        let &[window, wanted, handled] = message.words() else { return };
        let mut state = self.state();
        let to = message.from();
        if state.records.len() == state.records.capacity() {
            // Peers may come and leave while nothing is published.
            state.drop_ended(message.endpoint());
        }
        let State { records, sendable, .. } = &mut *state;
        let record = records.entry(to).or_default();
        record.wanted = match wanted {
            ALL => Some(Wanted::All),
            LATEST => Some(Wanted::Latest),
            _ => None,
        };
        if record.wanted.is_none() {
            record.waiting.clear();
        }
        record.window = window.min(WINDOW as u64);
        record.set_handled(handled);
        list(to, record, sendable);
        state.send(message.endpoint());
    }

    fn on_credit<S>(&self, reply: &Message<'_, S>) {
        let mut state = self.state();
        let State { records, sendable, .. } = &mut *state;
        let Some(record) = records.get_mut(&reply.from()) else { return };
        record.set_handled(reply.word(0));
        list(reply.from(), record, sendable);
        state.send(reply.endpoint());
    }
}

/// Visit this subscriber with the next [`send`](State::send), if it can get something.
fn list(to: Connection, record: &mut Record, sendable: &mut Vec<Connection>) {
    if record.can_send() && !mem::replace(&mut record.is_listed, true) {
        sendable.push(to);
    }
}

impl State {
    /// Drop the records of connections that have ended.
    fn drop_ended<S>(&mut self, endpoint: &Endpoint<S>) {
        let State { records, counters, .. } = self;
        records.retain(|&to, record| endpoint.is_open(to) || counters.drop_gone(record));
    }

    fn send<S>(&mut self, endpoint: &Endpoint<S>) -> usize {
        let before = self.counters.sent;
        let mut visited = mem::take(&mut self.sendable);
        visited.retain(|&to| self.send_to(endpoint, to));
        // If frames are scarce, another one is the first to get some.
        let count = visited.len();
        visited.rotate_left(count.min(1));
        self.sendable = visited;
        (self.counters.sent - before) as usize
    }

    /// Send to this subscriber. Returns whether it has to be visited again.
    fn send_to<S>(&mut self, endpoint: &Endpoint<S>, to: Connection) -> bool {
        let State { records, counters, handler, .. } = self;
        let Some(record) = records.get_mut(&to) else { return false };
        while record.can_send()
            && let Some(message) = record.waiting.front()
        {
            let [first, second] = message.words;
            let words = [record.missed, message.key, first, second];
            match endpoint.try_request_shared(to, *handler, &words[..2 + message.count], &message.payload) {
                Ok(()) => (record.sent, counters.sent) = (record.sent + 1, counters.sent + 1),
                Err(error) if error.is_temporary() => return true,
                Err(RequestError::TooLarge { .. }) => {
                    record.missed += 1;
                    (counters.missed, counters.too_long) = (counters.missed + 1, counters.too_long + 1);
                }
                Err(_) => {
                    counters.drop_gone(record);
                    records.remove(&to);
                    return false;
                }
            }
            record.waiting.pop_front();
        }
        record.is_listed = false;
        false
    }
}

impl PublisherCounters {
    /// A connection has ended. Returns whether to keep its record: no.
    fn drop_gone(&mut self, record: &Record) -> bool {
        self.gone += u64::from(record.wanted.is_some());
        self.lost += record.waiting.len() as u64;
        false
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("counters", &self.state().counters).finish_non_exhaustive()
    }
}
