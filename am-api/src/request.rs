//! Requests: step 1 of a message's path.

use proto::{FlowId, ReturnReason, SendError};
use ring::Frame;
use wire::control::Refusal;
use wire::{Class, MAX_WORDS, WORD};

use crate::connect::refusal;
use crate::shared::Shared;
use crate::{Handler, Port, Remote};

/// Why a request was not sent. Nothing left, nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// As many requests as the receiver has room for are on their way.
    #[error("no credit now: the receiver has not made room yet; poll, then try again")]
    NoCredit,
    /// This node's frames are all in use.
    #[error("all frames of this node are in use; poll, then try again")]
    NoFrame,
    /// The conversation is being set up.
    #[error("not connected yet; poll until it is, or use `wait_open`")]
    Connecting,
    /// The peer refused the conversation.
    #[error("the peer refused the connection: {}", refusal(*.0))]
    Refused(Refusal),
    /// The conversation is over.
    #[error("the connection is dead: {0}; connect again when the peer is back")]
    Dead(ReturnReason),
    /// This side has closed it.
    #[error("this connection was closed on this side; connect again")]
    Closed,
    /// It does not fit into one frame.
    #[error("{needs} bytes of words (8 each) and payload, but one message to this peer carries at most {most}")]
    TooLarge {
        /// Bytes of words and payload.
        needs: usize,
        /// The most that there may be.
        most: usize,
    },
    /// More than four word arguments.
    #[error("{0} words, but a message has at most 4; put the rest into the payload")]
    TooManyWords(usize),
}

impl RequestError {
    /// Whether polling and trying again may help.
    pub fn is_temporary(&self) -> bool {
        matches!(self, RequestError::NoCredit | RequestError::NoFrame | RequestError::Connecting)
    }
}

impl From<SendError> for RequestError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NoCredit => RequestError::NoCredit,
            SendError::Full(_) => RequestError::NoFrame,
            SendError::Connecting => RequestError::Connecting,
            SendError::Dead(reason) => RequestError::Dead(reason),
            SendError::Refused(why) => RequestError::Refused(why),
            SendError::Unknown => RequestError::Closed,
            SendError::TooLarge { needs, most } => RequestError::TooLarge { needs, most },
        }
    }
}

impl Port {
    /// Send a request: at the other side, its function for `handler` runs with
    /// these words (at most 4) and this payload. Never blocks; the frame
    /// leaves with the next poll or flush.
    ///
    /// # Errors
    /// See [`RequestError`]; those that [are temporary](RequestError::is_temporary) pass with polling.
    #[inline]
    pub fn request(&self, to: Remote, handler: Handler, words: &[u64], payload: &[u8]) -> Result<(), RequestError> {
        let mut shared = self.shared.borrow_mut();
        let frame = shared.engine.pool().take().ok_or(RequestError::NoFrame)?;
        if payload.len() >= shared.large {
            shared.engine.pool().prefetch_next(payload.len());
        }
        shared.send(to.0, Class::Request, handler, words, payload, frame).map_err(|(error, _)| error)
    }
}

/// The default of [`Builder::large`](crate::Builder::large): what may still find company waits for it until the doorbell.
/// A turn's burst of longer ones would fill the nearest cache.
pub(crate) const LARGE: usize = proto::Config::BUNDLE_BELOW;

impl Shared {
    /// Admit the message, and write it into the frame. On an error the frame comes back.
    #[inline]
    pub(crate) fn send(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: Handler,
        words: &[u64],
        payload: &[u8],
        frame: Frame,
    ) -> Result<(), (RequestError, Frame)> {
        if words.len() > MAX_WORDS {
            return Err((RequestError::TooManyWords(words.len()), frame));
        }
        let body = words.len() * WORD + payload.len();
        let write = |place: &mut [u8]| write_body(place, words, payload);
        let sent = self.core().send(flow, class, handler.0, words.len() as u8, frame, body, write);
        if body >= self.large && sent.is_ok() {
            self.engine.pass(&mut *self.transport);
        }
        sent.map_err(|(error, frame)| (error.into(), frame))
    }
}

/// Words in network byte order, then the payload.
#[inline]
fn write_body(place: &mut [u8], words: &[u64], payload: &[u8]) {
    put_words(place, words);
    place[words.len() * WORD..].copy_from_slice(payload);
}

/// Words in network byte order.
#[inline]
pub(crate) fn put_words(place: &mut [u8], words: &[u64]) {
    for (place, word) in place.chunks_exact_mut(WORD).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}
