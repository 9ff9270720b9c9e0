//! What the second word of an answer says, and what the messages of the layer are called.

use std::ops::RangeInclusive;

use am_api::{CallId, Connection, HandlerId};

/// A call. Words: the call's id, the method, how many nanoseconds are left. Answered at once, with a status.
pub(crate) const CALL: HandlerId = HandlerId(0);
/// The result of a call that was [`Status::Running`]. Words: the call's id, the status.
pub(crate) const RESULT: HandlerId = HandlerId(1);
/// The caller dropped a call. Words: the call's id.
pub(crate) const CANCEL: HandlerId = HandlerId(2);

/// An item of a call's stream. Words: the call's id; the item's number, and in the lowest bit whether the sender has made the call.
pub(crate) const ITEM: HandlerId = HandlerId(3);
/// Credit, end or stop of a call's stream. Words: the call's id; see `stream.rs`.
pub(crate) const FLOW: HandlerId = HandlerId(4);

/// A call that was sent: its id on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SentCall {
    pub(crate) on: Connection,
    pub(crate) id: CallId,
}

impl SentCall {
    /// All calls of a connection.
    pub(crate) fn all_on(on: Connection) -> RangeInclusive<SentCall> {
        SentCall { on, id: CallId(0) }..=SentCall { on, id: CallId(u64::MAX) }
    }
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Status {
    /// The payload is the value.
    Value,
    /// The payload is the service's error.
    Error,
    /// The call became a task. A [`RESULT`] follows.
    Running,
    /// The payload is the list of the server's methods.
    UnknownMethod,
    /// The payload is the list of the server's methods.
    Mismatch,
    /// Its time was over before it began.
    Late,
    /// The method panicked.
    Panicked,
    /// The arguments made no sense.
    Malformed,
    /// The server shuts down, and begins no call.
    ShuttingDown,
    /// The server runs too many calls of this connection, or holds too many bytes of them.
    Busy,
    /// It ran, and its result is longer than this side accepts.
    TooLong,
    /// The server does not let this caller call it.
    Forbidden,
    /// It ran, and its result could not be written.
    Unwritten,
}

impl Status {
    const ALL: [Status; 13] = [
        Status::Value,
        Status::Error,
        Status::Running,
        Status::UnknownMethod,
        Status::Mismatch,
        Status::Late,
        Status::Panicked,
        Status::Malformed,
        Status::ShuttingDown,
        Status::Busy,
        Status::TooLong,
        Status::Forbidden,
        Status::Unwritten,
    ];

    /// Whether the method has run to its end.
    pub(crate) fn has_run(self) -> bool {
        matches!(self, Status::Value | Status::Error | Status::Panicked | Status::TooLong | Status::Unwritten)
    }

    /// `None` for a number of another version.
    #[inline]
    pub(crate) fn of_word(word: u64) -> Option<Status> {
        Status::ALL.get(usize::try_from(word).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_its_number() {
        for status in Status::ALL {
            assert_eq!(Status::of_word(status as u64), Some(status));
        }
        assert_eq!((Status::of_word(Status::ALL.len() as u64), Status::of_word(u64::MAX)), (None, None));
    }
}
