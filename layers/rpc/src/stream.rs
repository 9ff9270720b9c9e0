//! Streams of a call: items in order, with credit of their own, in one direction or both.
//!
//! ```text
//!   writer                                          reader
//!   send(item)  one item ahead  ── ITEM ──────────▶ queue, at most a window of items and bytes ─▶ next()
//!               so many less    ◀── MORE(count) ─── after every half window
//!   dropped     ────────────────── END ───────────▶ next() is None behind the last item
//!   send() fails               ◀── STOP ─────────── dropped
//! ```
//!
//! A reader that does not read stops its writer, and nobody else: what it has not taken lies in its queue, and holds no credit of the
//! connection. The end of the call ends its streams.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use am_api::{CallId, Connection, Message};
use futures_util::stream::Stream;

use crate::bytes::Bytes;
use crate::codec::{Decode, DecodeError, Encode, EncodeError, from_bytes, sure, writing};
use crate::outbox::Parcel;
use crate::status::{FLOW, ITEM, SentCall};

/// Items that a writer may be ahead of its reader.
pub const STREAM_WINDOW: usize = 32;

/// A writer that is so many bytes ahead of its reader waits. The last item may go beyond.
pub const STREAM_WINDOW_BYTES: usize = 1 << 20;

/// The streams of a call. Two calls of one connection may have one id, one of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) call: SentCall,
    /// Whether this side has made the call.
    pub(crate) is_own: bool,
}

/// What the second word of a [`FLOW`] message says. Above it is a count: of items that were taken, of all that were sent.
#[derive(Clone, Copy, PartialEq)]
#[repr(u64)]
enum Flow {
    More,
    End,
    Stop,
}

/// The lowest bit: whether the sender of the message has made the call.
const OWN: u64 = 1;

/// Both directions of a call's streams.
#[derive(Default)]
pub(crate) struct Streams {
    key: Cell<Option<StreamKey>>,
    // What this side writes: the items of which the reader has not said that it took them, by their bytes.
    ahead: RefCell<VecDeque<usize>>,
    ahead_bytes: Cell<usize>,
    /// All items that were sent.
    sent: Cell<u64>,
    is_stopped: Cell<bool>,
    writer: RefCell<Option<Waker>>,
    // What this side reads.
    items: RefCell<VecDeque<Bytes>>,
    unread_bytes: Cell<usize>,
    /// All items that have come.
    received: Cell<u64>,
    /// How many the writer has sent, once it has ended.
    total: Cell<Option<u64>>,
    /// The reader knows that items are missing.
    is_told: Cell<bool>,
    /// Of which the writer was not told: items, and bytes.
    taken: Cell<(usize, usize)>,
    is_ended: Cell<bool>,
    is_dropped: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl Streams {
    fn has_room(&self) -> bool {
        self.ahead.borrow().len() < STREAM_WINDOW && self.ahead_bytes.get() < STREAM_WINDOW_BYTES
    }

    /// An item of so many bytes is sent. Returns its number.
    fn send(&self, bytes: usize) -> u64 {
        let number = self.sent.replace(self.sent.get() + 1);
        self.ahead.borrow_mut().push_back(bytes);
        self.ahead_bytes.set(self.ahead_bytes.get() + bytes);
        number
    }

    /// The reader has taken so many items.
    fn read(&self, items: usize) {
        let mut ahead = self.ahead.borrow_mut();
        let items = items.min(ahead.len());
        let bytes: usize = ahead.drain(..items).sum();
        self.ahead_bytes.set(self.ahead_bytes.get() - bytes);
    }

    fn wake_writer(&self) {
        let waker = self.writer.borrow_mut().take();
        waker.into_iter().for_each(Waker::wake);
    }

    fn wake_reader(&self) {
        let waker = self.reader.borrow_mut().take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// The call is over: nothing more comes, and nothing more is sent.
    pub(crate) fn end(&self) {
        self.is_ended.set(true);
        self.is_stopped.set(true);
        self.wake_writer();
        self.wake_reader();
    }
}

/// How streams send: what they need of the runtime.
pub(crate) trait Posts {
    fn post(&self, to: Connection, parcel: &Parcel<'_>);
    /// The longest payload that this connection takes. `None` if it has ended.
    fn max_payload(&self, to: Connection) -> Option<usize>;
}

/// The streams of all calls that were sent, or that run.
#[derive(Default)]
pub(crate) struct StreamTable(RefCell<BTreeMap<StreamKey, Rc<Streams>>>);

impl StreamTable {
    /// How many calls have streams.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// The call has this key from now on: its writer may begin.
    pub(crate) fn add(&self, posts: &dyn Posts, key: StreamKey, streams: &Rc<Streams>) {
        streams.key.set(Some(key));
        self.0.borrow_mut().insert(key, streams.clone());
        // Its ends may be gone already.
        if streams.is_stopped.get() {
            tell(posts, streams, Flow::End, streams.sent.get());
        }
        if streams.is_dropped.get() {
            tell(posts, streams, Flow::Stop, 0);
        }
        streams.wake_writer();
    }

    /// The call is over.
    pub(crate) fn end(&self, key: StreamKey) {
        let streams = self.0.borrow_mut().remove(&key);
        streams.into_iter().for_each(|streams| streams.end());
    }

    /// The call of these is over, which may not have been sent.
    #[cold]
    pub(crate) fn ended(&self, streams: &Streams) {
        streams.key.get().into_iter().for_each(|key| self.end(key));
        streams.end();
    }

    /// The connection has ended.
    pub(crate) fn end_all(&self, on: Option<Connection>) {
        let all = self.0.borrow();
        let keys: Vec<StreamKey> = all.keys().filter(|key| on.is_none_or(|on| key.call.on == on)).copied().collect();
        drop(all);
        keys.into_iter().for_each(|key| self.end(key));
    }

    fn of(&self, message: &Message<'_, ()>) -> Option<Rc<Streams>> {
        // A call that its sender has made is none of this side.
        let is_own = message.word(1) & OWN == 0;
        let call = SentCall { on: message.from(), id: CallId(message.word(0)) };
        self.0.borrow().get(&StreamKey { call, is_own }).cloned()
    }

    /// An item has come. When a connection ends, messages behind a missing one are handled, too: there the stream is over. So it is behind an item
    /// for which there was no credit.
    pub(crate) fn on_item(&self, message: &Message<'_, ()>) {
        let Some(streams) = self.of(message) else { return };
        if streams.is_dropped.get() || streams.is_ended.get() {
            return;
        }
        let mut items = streams.items.borrow_mut();
        let is_full = items.len() >= STREAM_WINDOW || streams.unread_bytes.get() >= STREAM_WINDOW_BYTES;
        if is_full || message.word(1) >> 1 != streams.received.get() {
            streams.is_ended.set(true);
            drop(items);
            return streams.wake_reader();
        }
        streams.received.set(streams.received.get() + 1);
        streams.unread_bytes.set(streams.unread_bytes.get() + message.payload().len());
        let in_frame = message.endpoint().frame_payload(message.from(), 2).unwrap_or(0);
        items.push_back(Bytes::keep_long(message, in_frame));
        drop(items);
        streams.wake_reader();
    }

    pub(crate) fn on_flow(&self, message: &Message<'_, ()>) {
        let Some(streams) = self.of(message) else { return };
        let what = message.word(1) >> 1;
        if what & 3 == Flow::More as u64 {
            streams.read((what >> 2) as usize);
            streams.wake_writer();
        } else if what & 3 == Flow::End as u64 {
            streams.total.set(Some(what >> 2));
            streams.is_ended.set(true);
            streams.wake_reader();
        } else {
            streams.is_stopped.set(true);
            streams.wake_writer();
        }
    }
}

/// The streams of a call for the code that [`service`](crate::service) generates.
pub struct CallStreams {
    pub(crate) streams: Rc<Streams>,
    pub(crate) posts: Rc<dyn Posts>,
}

impl CallStreams {
    /// This side's writing end.
    pub fn writer<T: Encode>(&self) -> StreamWriter<T> {
        StreamWriter { streams: self.streams.clone(), posts: self.posts.clone(), of: PhantomData }
    }

    /// This side's reading end.
    pub fn reader<T: for<'a> Decode<'a>>(&self) -> StreamReader<T> {
        StreamReader { streams: self.streams.clone(), posts: self.posts.clone(), of: PhantomData }
    }
}

/// Send this about the streams of a call.
fn tell(posts: &dyn Posts, streams: &Streams, what: Flow, count: u64) {
    if let Some(StreamKey { call, is_own }) = streams.key.get() {
        let word = (count << 2 | what as u64) << 1 | u64::from(is_own);
        posts.post(call.on, &Parcel::of_words(FLOW, [call.id.0, word]));
    }
}

/// Why an item was not sent.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The reader was dropped, or the call is over.
    #[error("nobody reads: the reader was dropped, or the call is over")]
    Closed,
    /// An item of more bytes than the reader accepts (`Builder::max_message`). The stream goes on.
    #[error("an item of {bytes} bytes, and the reader accepts {most}: send it in pieces")]
    TooLong {
        /// Bytes of the item.
        bytes: usize,
        /// The most bytes.
        most: usize,
    },
    /// A codec that was written by hand, or an item that is nested too deeply. The stream goes on.
    #[error("the item could not be written: {0}")]
    Unencodable(EncodeError),
}

am_api::debug_as_display!(StreamError);

/// The writing end of a stream. As the argument of a method it writes to the caller; a client gets one for a method that reads. Dropping it ends
/// the stream.
pub struct StreamWriter<T> {
    streams: Rc<Streams>,
    posts: Rc<dyn Posts>,
    of: PhantomData<fn(T)>,
}

impl<T: Encode> StreamWriter<T> {
    /// Send an item. Waits while the reader is a window behind.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub async fn send(&mut self, item: &T) -> Result<(), StreamError> {
        let streams = &self.streams;
        let key = poll_fn(|context| {
            if streams.is_stopped.get() {
                return Poll::Ready(Err(StreamError::Closed));
            }
            match streams.key.get().filter(|_| streams.has_room()) {
                Some(key) => Poll::Ready(Ok(key)),
                None => {
                    *streams.writer.borrow_mut() = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        self.post(key, &sure(item).map_err(StreamError::Unencodable)?)
    }

    fn post(&self, StreamKey { call, is_own }: StreamKey, item: &impl Encode) -> Result<(), StreamError> {
        let bytes = item.size();
        if let Some(most) = self.posts.max_payload(call.on).filter(|most| bytes > *most) {
            return Err(StreamError::TooLong { bytes, most });
        }
        let words = [call.id.0, self.streams.send(bytes) << 1 | u64::from(is_own)];
        self.posts.post(call.on, &Parcel { handler: ITEM, words, bytes, write: &writing(item) });
        Ok(())
    }
}

impl<T> Drop for StreamWriter<T> {
    fn drop(&mut self) {
        if !self.streams.is_stopped.replace(true) {
            tell(&*self.posts, &self.streams, Flow::End, self.streams.sent.get());
        }
    }
}

impl<T> fmt::Debug for StreamWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter").field("ahead", &self.streams.ahead.borrow().len()).finish_non_exhaustive()
    }
}

/// Why an item was not read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Its bytes are no value of its type. The stream goes on.
    #[error("the item could not be read: {0}")]
    Malformed(DecodeError),
    /// The call ended before its stream did: the caller has left or dropped it, its time is over, or the connection ended. The writer may have sent
    /// more. This is the last that is read; the outcome of the call says why.
    #[error("the call ended before its stream; its outcome says why")]
    Cut,
}

am_api::debug_as_display!(ItemError);

/// The reading end of a stream: a [`Stream`] of items. It ends behind the last item of a writer that was dropped. If the call is over before that,
/// the last item is [`ItemError::Cut`]. Dropping the reader stops the writer.
pub struct StreamReader<T> {
    streams: Rc<Streams>,
    posts: Rc<dyn Posts>,
    of: PhantomData<fn() -> T>,
}

impl<T: for<'a> Decode<'a>> StreamReader<T> {
    /// The next item. `None` behind the last one, which was read if no error has said otherwise.
    pub async fn next(&mut self) -> Option<Result<T, ItemError>> {
        poll_fn(|context| self.poll_item(context)).await
    }

    fn poll_item(&mut self, context: &mut PollContext<'_>) -> Poll<Option<Result<T, ItemError>>> {
        let streams = &self.streams;
        let item = streams.items.borrow_mut().pop_front();
        let Some(bytes) = item else {
            if streams.is_ended.get() {
                let is_whole = streams.total.get() == Some(streams.received.get());
                let is_known = streams.is_told.replace(true) || is_whole;
                return Poll::Ready((!is_known).then_some(Err(ItemError::Cut)));
            }
            *streams.reader.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        };
        streams.unread_bytes.set(streams.unread_bytes.get() - bytes.len());
        let taken = (streams.taken.get().0 + 1, streams.taken.get().1 + bytes.len());
        streams.taken.set(taken);
        let is_much = taken.0 >= STREAM_WINDOW / 2 || taken.1 >= STREAM_WINDOW_BYTES / 2;
        if is_much && !streams.is_ended.get() {
            streams.taken.set((0, 0));
            tell(&*self.posts, streams, Flow::More, taken.0 as u64);
        }
        Poll::Ready(Some(from_bytes(&bytes).map_err(ItemError::Malformed)))
    }
}

impl<T: for<'a> Decode<'a>> Stream for StreamReader<T> {
    type Item = Result<T, ItemError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(context)
    }
}

impl<T> Drop for StreamReader<T> {
    fn drop(&mut self) {
        self.streams.is_dropped.set(true);
        let items = self.streams.items.take();
        self.streams.unread_bytes.set(0);
        if !self.streams.is_ended.get() {
            tell(&*self.posts, &self.streams, Flow::Stop, 0);
        }
        drop(items);
    }
}

impl<T> fmt::Debug for StreamReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader").field("waiting", &self.streams.items.borrow().len()).finish_non_exhaustive()
    }
}
