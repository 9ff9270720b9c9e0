//! Replies: step 10 of a message's path. The right to reply is a value, the [`Token`].

use std::fmt;
use std::io::IoSlice;
use std::ops::Deref;

use am_proto::{Delivery, FlowId, ReturnReason};
use am_ring::Frame;
use am_wire::{Class, MAX_WORDS, WORD_BYTES};

use crate::node_state::{NodeWeak, borrow_to_drop};
use crate::payload::{Payload, Shared, WrittenBy};
use crate::{CallId, Connection, HandlerId, RequestError};

/// Why a reply was not sent.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The connection ended. This side did not close it.
    #[error("nobody is left to reply to: {0}")]
    Dead(ReturnReason),
    /// This side closed the connection.
    #[error("this side closed the connection that the request came on; reply before closing it")]
    Closed,
    /// The node that received the request was dropped.
    #[error("the node that received the request was dropped")]
    NodeDropped,
    /// The reply is longer than the peer accepts.
    #[error("the payload has {needs} bytes, and the peer accepts {most} (its `Builder::max_message`)")]
    TooLarge {
        /// Bytes of its payload.
        needs: usize,
        /// The longest payload that the peer accepts with these words.
        most: usize,
    },
    /// Too many word arguments.
    #[error("{count} words, but there may be at most {most}; put the rest into the payload")]
    TooManyWords {
        /// The number of words given.
        count: usize,
        /// The most words.
        most: usize,
    },
}

am_transport::debug_as_display!(ReplyError);

impl From<RequestError> for ReplyError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Dead(reason) => ReplyError::Dead(reason),
            RequestError::TooLarge { needs, most } => ReplyError::TooLarge { needs, most },
            RequestError::TooManyWords { count, most } => ReplyError::TooManyWords { count, most },
            RequestError::NodeDropped => ReplyError::NodeDropped,
            // A token includes credit, a frame and a place in the queue, and its connection was open. So no other error occurs.
            _ => ReplyError::Closed,
        }
    }
}

/// The right to answer one request, once (AM-II's token).
///
/// [`Token::reply`] uses it up, and dropping it declines the reply. A program may keep it and reply after the handler has
/// returned and the message is released. A frame for the reply and a place in the send queue are set aside, so a reply never
/// fails for lack of room.
///
/// ```
/// use am_api::{Endpoint, HandlerId, Token};
///
/// /// The tokens of the peers that have arrived at the barrier.
/// type Waiting = Vec<Token>;
///
/// fn barrier(endpoint: &mut Endpoint<Waiting>, of: usize) {
///     endpoint.on_request(HandlerId(0), move |waiting: &mut Waiting, request| {
///         waiting.push(request.token);
///         if waiting.len() == of {
///             // Peers that have ended meanwhile need no answer.
///             waiting.drain(..).for_each(|token| _ = token.reply(HandlerId(0), &[], b""));
///         }
///     });
/// }
/// ```
///
/// The type system allows at most one reply:
///
/// ```compile_fail,E0382
/// # use am_api::{HandlerId, Token};
/// fn twice(token: Token) {
///     _ = token.reply(HandlerId(0), &[1], b"");
///     _ = token.reply(HandlerId(0), &[2], b"");
/// }
/// ```
pub struct Token {
    pub(crate) node: NodeWeak,
    pub(crate) flow: FlowId,
    /// The handler that the request named.
    handler: u8,
    /// Not used yet.
    pub(crate) valid: bool,
    /// The request's first word: the id, if it is a call.
    id: u64,
}

impl Token {
    #[inline]
    pub(crate) fn new(node: NodeWeak, request: &Delivery<Frame>, id: u64) -> Self {
        Token { node, flow: request.flow, handler: request.handler, valid: true, id }
    }

    /// Answer a [call](crate::Endpoint::try_call): reply to the handler id that it named, with its id and these words (at most 3). The
    /// caller's [outcome](crate::Endpoint::on_outcome) has the id as word 0, and these words from word 1 on.
    ///
    /// ```
    /// use am_api::{Endpoint, HandlerId, Request};
    ///
    /// const SQUARE: HandlerId = HandlerId(0);
    ///
    /// fn serve(endpoint: &mut Endpoint<()>) {
    ///     endpoint.on_request(SQUARE, |(), Request { message, token }| {
    ///         let number = message.word(1);
    ///         token.answer(&[number * number], b"").unwrap_or_else(|error| eprintln!("{error}"));
    ///     });
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Token::reply`].
    pub fn answer(self, words: &[u64], payload: &[u8]) -> Result<(), ReplyError> {
        self.answer_payload(words, payload)
    }

    #[inline(always)]
    fn answer_payload<P: Payload + ?Sized>(self, words: &[u64], payload: &P) -> Result<(), ReplyError> {
        let (mut all, count) = ([self.id; MAX_WORDS], words.len());
        let too_many = ReplyError::TooManyWords { count, most: MAX_WORDS - 1 };
        all.get_mut(1..=count).ok_or(too_many)?.copy_from_slice(words);
        let handler = self.handler();
        self.reply_with(handler, &all[..=count], payload)
    }

    /// As [`answer`](Token::answer), with a payload of `bytes` bytes that `write` writes into the frame that leaves: see
    /// [`Endpoint::try_request_with`](crate::Endpoint::try_request_with).
    ///
    /// # Errors
    /// As [`Token::reply`].
    pub fn answer_with(
        self,
        words: &[u64],
        bytes: usize,
        write: impl Fn(&mut [u8]) -> usize,
    ) -> Result<(), ReplyError> {
        self.answer_payload(words, &WrittenBy(bytes, write))
    }

    /// The handler that the request named.
    pub fn handler(&self) -> HandlerId {
        HandlerId(self.handler)
    }

    /// The id of the call that the request is: its first word. For a request that is no call the number means nothing.
    pub fn call_id(&self) -> CallId {
        CallId(self.id)
    }

    /// Reply: at the side that asked, the reply handler `handler` runs with these words (at most 4) and this payload.
    ///
    /// # Errors
    /// See [`ReplyError`]. An error uses up the right to reply too.
    #[inline]
    pub fn reply(self, handler: HandlerId, words: &[u64], payload: &[u8]) -> Result<(), ReplyError> {
        self.reply_with(handler, words, payload)
    }

    /// As [`reply`](Token::reply), with a payload in several pieces: see
    /// [`Endpoint::try_request_vectored`](crate::Endpoint::try_request_vectored).
    ///
    /// # Errors
    /// As [`Token::reply`].
    pub fn reply_vectored(self, handler: HandlerId, words: &[u64], payload: &[IoSlice<'_>]) -> Result<(), ReplyError> {
        self.reply_with(handler, words, payload)
    }

    /// As [`reply`](Token::reply), with a payload that the node shares instead of copying it: see
    /// [`Endpoint::try_request_shared`](crate::Endpoint::try_request_shared).
    ///
    /// # Errors
    /// As [`Token::reply`].
    pub fn reply_shared(
        self,
        handler: HandlerId,
        words: &[u64],
        payload: &(impl Deref<Target: AsRef<[u8]>> + Clone + 'static),
    ) -> Result<(), ReplyError> {
        self.reply_with(handler, words, &Shared(&[], payload))
    }

    #[inline]
    fn reply_with<P: Payload + ?Sized>(
        mut self,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
    ) -> Result<(), ReplyError> {
        let node = self.node.upgrade().ok_or(ReplyError::NodeDropped)?;
        let mut node = node.borrow_mut();
        if node.engine.core().has_ready() && node.append_reply(self.flow, handler, words, payload) {
            self.valid = false;
            return Ok(());
        }
        let frame = node.reply_frame(self.flow)?;
        self.valid = false;
        node.send::<true, _>(self.flow, Class::Reply, handler, words, payload, frame).map_err(|(error, frame)| {
            node.for_replies.push(frame);
            node.decline_reply(self.flow);
            error.into()
        })
    }

    /// The connection of the request.
    pub fn from(&self) -> Connection {
        Connection(self.flow)
    }

    /// The longest payload of a reply: what the peer [accepts](crate::Builder::max_message), or what fits a frame. 0 when the connection
    /// has ended.
    pub fn max_payload(&self) -> usize {
        self.node.upgrade().and_then(|node| node.borrow().max_payload(self.flow)).unwrap_or(0)
    }

    /// The longest payload of a reply with `words` words that travels in one frame. 0 when the connection has ended.
    pub fn frame_payload(&self, words: usize) -> usize {
        let max_body =
            self.node.upgrade().map_or(0, |node| node.borrow().open_flow(self.flow).map_or(0, |(_, max)| max));
        max_body.saturating_sub(words.saturating_mul(WORD_BYTES))
    }
}

impl Drop for Token {
    #[inline]
    fn drop(&mut self) {
        if self.valid
            && let Some(node) = self.node.upgrade()
            && let Some(mut node) = borrow_to_drop(&node)
        {
            node.decline_reply(self.flow);
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("from", &self.from()).finish_non_exhaustive()
    }
}
