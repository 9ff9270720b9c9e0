//! Why a message has no effect.

use am_api::{ConnectError, Fate, RequestError, ReturnReason};

/// The most calls without an outcome.
pub(crate) const MAX_CALLS: usize = 65_536;

/// Why a call has no answer, or why a message was not delivered.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It could not be sent.
    #[error("it was not sent: {0}")]
    NotSent(#[from] RequestError),
    /// Its peer cannot be connected to.
    #[error("there is no connection: {0}")]
    NotConnected(#[from] ConnectError),
    /// It could not be delivered. Its fate says whether it may have been handled.
    #[error("it came back: {reason}")]
    Returned {
        /// Why it came back.
        reason: ReturnReason,
        /// Whether a handler of the peer may have had it.
        fate: Fate,
    },
    /// The peer's node received it, and the connection ended without an answer. It may have been handled.
    #[error("no answer, and the connection ended: {0}")]
    Ended(ReturnReason),
    /// Its time is over. It may have been handled, or be handled later.
    #[error("no answer in time")]
    TimedOut,
    /// The driver, and with it the endpoint, was dropped. It may have been handled.
    #[error("the driver of this endpoint was dropped; keep it, and poll it, as long as there are calls")]
    NodeDropped,
    /// Too many calls, or transfers, wait for their outcome.
    #[error("{MAX_CALLS} calls, or as many transfers, wait for their outcome; wait for some of them first")]
    TooManyCalls,
    /// The handler id has an [`on_reply`](crate::Handlers::on_reply).
    #[error("replies with this handler id go to an `on_reply`; calls need an id of their own")]
    HasReplyHandler,
    /// The node's own thread would have waited for itself.
    #[error("the node's thread cannot wait for its own call; poll the driver, or call from another thread")]
    OnNodeThread,
}

am_api::debug_as_display!(CallError);
