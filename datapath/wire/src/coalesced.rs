//! Several small messages in one frame.
//!
//! ```text
//!  ┌──────┬───────┬─────┬──────────────┬──────┬───────┬─────┬──────────────┬─
//!  │length│handler│words│words, payload│length│handler│words│words, payload│ ...
//!  │  2   │   1   │  1  │    length    │  2   │   1   │  1  │    length    │
//!  └──────┴───────┴─────┴──────────────┴──────┴───────┴─────┴──────────────┴─
//!    number n                             number n + 1
//! ```
//!
//! All belong to one flow and class, with consecutive numbers. The frame's header has the first number. The cost of a
//! small message is its frame's path through rings and kernel; several messages in one frame share it.

use crate::Reason;
use crate::frame::ParsedFrame;
use crate::header::{HEAD_WORDS, WORD_BYTES};

/// Bytes before each message.
pub const MESSAGE_HEADER: usize = 4;

/// Begin a message of `length` bytes behind `at` bytes of others, in the body of a frame: write its header. Returns the place of its words
/// and payload, or `None`, with nothing written, if it does not fit.
#[inline]
pub fn begin(body: &mut [u8], at: usize, handler: u8, words: u8, length: usize) -> Option<&mut [u8]> {
    let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
    let (head, rest) = body.get_mut(at..)?.split_first_chunk_mut::<MESSAGE_HEADER>()?;
    let place = rest.get_mut(..length)?;
    *head = [high, low, handler, words];
    Some(place)
}

/// Writes the body of such a frame.
#[derive(Debug)]
pub struct Writer<'a> {
    space: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Write to `space`: from the start of the frame's body, up to its limit.
    #[inline]
    pub fn new(space: &'a mut [u8]) -> Self {
        Writer { space, length: 0 }
    }

    /// Add a message: its words and payload. Returns `false`, and writes nothing, if it does not fit.
    #[inline]
    pub fn push(&mut self, handler: u8, words: u8, body: &[u8]) -> bool {
        let Some(place) = begin(self.space, self.length, handler, words, body.len()) else { return false };
        place.copy_from_slice(body);
        self.length += MESSAGE_HEADER + body.len();
        true
    }

    /// Bytes written: the length of the body so far.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }
}

/// One message of a coalesced frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoalescedMessage {
    /// Index into the receiver's handler table.
    pub handler: u8,
    /// How many word arguments start its body.
    pub words: u8,
    /// Where its words start, from the start of the frame's body.
    pub at: usize,
    /// Bytes of words and payload.
    pub length: usize,
}

impl CoalescedMessage {
    /// The message whose header is here. It may say that it goes beyond these bytes.
    #[inline]
    pub fn find(bytes: &[u8], at: usize) -> Option<Self> {
        let &[high, low, handler, words] = bytes.get(at..)?.first_chunk::<MESSAGE_HEADER>()?;
        let length = u16::from_be_bytes([high, low]).into();
        Some(CoalescedMessage { handler, words, at: at + MESSAGE_HEADER, length })
    }
}

/// A valid body: at least one message, and the last ends where the body ends.
///
/// ```
/// use am_wire::coalesced::{Body, Writer};
///
/// let mut space = [0; 64];
/// let mut writer = Writer::new(&mut space);
/// assert!(writer.push(3, 0, b"hello") && writer.push(4, 0, b"world"));
/// let length = writer.length();
///
/// let body = Body::from_body(&space[..length]).unwrap();
/// let handlers: Vec<u8> = body.items().map(|item| item.handler).collect();
/// assert_eq!(handlers, [3, 4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    body: &'a [u8],
    count: usize,
    handler: Option<u8>,
}

impl<'a> Body<'a> {
    /// The messages of a frame of the kind `Coalesced`.
    ///
    /// # Errors
    /// Why none of them can be used.
    #[inline]
    pub fn parse(frame: &ParsedFrame<'a>) -> Result<Self, Reason> {
        if frame.header.words != 0 { Err(Reason::Words) } else { Self::from_body(frame.payload) }
    }

    /// The messages of a coalesced frame's body.
    ///
    /// # Errors
    /// Why none of them can be used.
    #[inline]
    pub fn from_body(body: &'a [u8]) -> Result<Self, Reason> {
        let (mut items, mut count, mut others) = (Items { body, at: 0 }, 0, 0);
        let first = body.get(2).copied().unwrap_or(0);
        for item in &mut items {
            count += 1;
            others |= item.handler ^ first;
            if item.words as usize > HEAD_WORDS || item.words as usize * WORD_BYTES > item.length {
                return Err(Reason::Words);
            }
            if item.words as usize == HEAD_WORDS {
                others = u8::MAX;
            }
        }
        if items.at != body.len() || body.is_empty() {
            return Err(Reason::Body);
        }
        Ok(Body { body, count, handler: (others == 0).then_some(first) })
    }

    /// The handler of all its messages, if they have one, and none of them is the head of a long message.
    #[inline]
    pub fn handler(&self) -> Option<u8> {
        self.handler
    }

    /// How many messages.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Its messages, in the order of their numbers.
    #[inline]
    pub fn items(&self) -> impl Iterator<Item = CoalescedMessage> + use<'a> {
        Items { body: self.body, at: 0 }
    }
}

/// The messages from `at` on.
struct Items<'a> {
    body: &'a [u8],
    at: usize,
}

impl Iterator for Items<'_> {
    type Item = CoalescedMessage;

    /// The next message, if it is all there.
    #[inline]
    fn next(&mut self) -> Option<CoalescedMessage> {
        let message = CoalescedMessage::find(self.body, self.at)?;
        let end = message.at + message.length;
        if end > self.body.len() {
            return None;
        }
        self.at = end;
        Some(message)
    }
}
