//! A message, as its handler sees it.

use std::cell::Cell;
use std::fmt;

use am_proto::{Delivery, Words};
use am_ring::Frame;

use crate::{Connection, HandlerId, Port};

/// A message that has arrived: a view on its frame, which the handler borrows.
///
/// ```text
///   words()    0 to 4 numbers of 64 bits
///   payload()  bytes, in the memory where the NIC put them
///   from()     who sent it: requests may be sent there
///   port()     the endpoint it came to: handlers send requests through it
/// ```
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub(crate) port: &'a Port,
    pub(crate) delivery: &'a Delivery<Frame>,
    /// Its place among the messages that handlers keep; none for what comes back.
    pub(crate) kept: Option<&'a Cell<Option<usize>>>,
    words: Words,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn new(port: &'a Port, delivery: &'a Delivery<Frame>, kept: Option<&'a Cell<Option<usize>>>) -> Self {
        Message { port, delivery, kept, words: delivery.words() }
    }

    /// Its word arguments.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// The word argument at this place, 0 where the message has none there.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }

    /// Its bytes, as long as the handler runs; longer with [`keep`](Message::keep).
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.delivery.payload()
    }

    /// The handler that it names.
    #[inline]
    pub fn handler(&self) -> HandlerId {
        HandlerId(self.delivery.handler)
    }

    /// The other side of its conversation.
    #[inline]
    pub fn from(&self) -> Connection {
        Connection(self.delivery.flow)
    }

    /// The endpoint that it is for, as far as handlers may use it: everything but polling.
    #[inline]
    pub fn port(&self) -> &'a Port {
        self.port
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("handler", &self.handler())
            .field("words", &self.words())
            .field("payload", &Head(self.payload()))
            .finish_non_exhaustive()
    }
}

/// Bytes as they are printed: a log line is no place for a megabyte.
pub(crate) struct Head<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 16;
        let (head, more) = (&self.0[..self.0.len().min(MOST)], if self.0.len() > MOST { " ..." } else { "" });
        write!(f, "{} bytes: {head:02x?}{more}", self.0.len())
    }
}
