//! Messages, as handlers see them.

use std::cell::Cell;

use am_api::{HandlerId, ReturnReason, Token};
use derive_where::derive_where;

use crate::links::Links;
use crate::{Cluster, Rank, SendError};

/// A message that has arrived. Its bytes are in the frame, and stay valid while the handler runs (§3.1: "message buffers do not persist
/// beyond the return of the handler").
#[derive_where(Debug)]
pub struct Message<'a, S> {
    message: am_api::Message<'a, S>,
    #[derive_where(skip)]
    links: &'a Links,
    source: Rank,
    /// The right to answer, with room set aside. The first answer uses it up.
    #[derive_where(skip)]
    answer: Cell<Option<Token>>,
}

impl<'a, S> Message<'a, S> {
    #[inline]
    pub(crate) fn new(message: am_api::Message<'a, S>, links: &'a Links, source: Rank, answer: Option<Token>) -> Self {
        Message { message, links, source, answer: Cell::new(answer) }
    }

    /// The node that sent it. [`Rank::GONE`] if that node connected and left while a handler of this node waited: its name is not known,
    /// and it cannot be answered.
    #[inline]
    pub fn source(&self) -> Rank {
        self.source
    }

    /// The handler that it names.
    #[inline]
    pub fn handler(&self) -> HandlerId {
        self.message.handler()
    }

    /// The four words of a `send_4`. Zeros for a `send`.
    #[inline]
    pub fn words(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|at| self.message.word(at))
    }

    /// The bytes of a `send`. Empty for a `send_4`.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.message.payload()
    }

    /// All nodes of the program.
    pub fn cluster(&self) -> &Cluster {
        &self.links.cluster
    }

    /// Send four words, from within the handler. The message is sent when the handler has returned.
    ///
    /// The first answer to [`source`](Message::source) has room set aside, unless this message is such an answer itself. Other messages may
    /// have to wait for room, and no handler runs meanwhile. See [Deadlock](crate#deadlock).
    #[inline]
    pub fn send_4(&self, dest: Rank, handler: HandlerId, words: [u64; 4]) -> Result<(), SendError> {
        self.dispatch(dest, handler, &words, b"")
    }

    /// As [`send_4`](Message::send_4), with bytes: at most one frame.
    #[inline]
    pub fn send(&self, dest: Rank, handler: HandlerId, bytes: &[u8]) -> Result<(), SendError> {
        self.dispatch(dest, handler, &[], bytes)
    }

    #[inline]
    fn dispatch(&self, dest: Rank, handler: HandlerId, words: &[u64], bytes: &[u8]) -> Result<(), SendError> {
        if dest == self.source
            && let Some(token) = self.answer.take()
        {
            return token.reply(handler, words, bytes).map_err(|error| SendError::of_reply(error, dest));
        }
        self.links.send_and_wait(self.message.endpoint(), dest, handler, words, bytes)
    }
}

/// A message of this node that returned, as it was sent.
#[derive_where(Clone, Copy, Debug)]
pub struct Returned<'a, S> {
    pub(crate) returned: am_api::Returned<'a, S>,
    pub(crate) dest: Rank,
}

impl<'a, S> Returned<'a, S> {
    /// The destination.
    pub fn dest(&self) -> Rank {
        self.dest
    }

    /// Why it returned.
    pub fn reason(&self) -> ReturnReason {
        self.returned.reason
    }

    /// The handler that it names.
    pub fn handler(&self) -> HandlerId {
        self.returned.message.handler()
    }

    /// Its words. Zeros for a `send`.
    pub fn words(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|at| self.returned.message.word(at))
    }

    /// Its bytes. Empty for a `send_4`.
    pub fn bytes(&self) -> &'a [u8] {
        self.returned.message.payload()
    }
}
