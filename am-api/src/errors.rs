//! Why a message cannot be sent.

use am_proto::{ReturnReason, SendError};
use am_wire::control::Refusal;

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
    /// More than three of them, in a request with a deadline.
    #[error("{0} words, but a request with a deadline has at most 3 beside its id; put the rest into the payload")]
    TooManyWordsWithin(usize),
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

pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::NoEndpoint => "it has no endpoint of that name",
        Refusal::Tag => "its endpoint has another tag; both sides must name the same",
        Refusal::Full => "it has no room for another connection",
    }
}
