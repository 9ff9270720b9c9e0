//! Messages that come back to their sender.

use std::fmt;

use am_proto::{Fate, ReturnReason};
use am_wire::Class;

use crate::{Connection, Message};

/// A message of this endpoint that could not be delivered, as it was sent (AM-II's return to sender).
/// [`fate`](Returned::fate) says whether it may be sent again without being handled twice.
pub struct Returned<'a, S> {
    /// The message, as it was sent.
    pub message: Message<'a, S>,
    /// Why it came back.
    pub reason: ReturnReason,
    /// Whether a handler of the peer may have had it. It is [unknown](Fate::Unknown) only if the peer crashed, was restarted
    /// or is silent, and the message had left before.
    pub fate: Fate,
}

impl<S> Returned<'_, S> {
    /// The connection that it was sent on.
    pub fn to(&self) -> Connection {
        self.message.from()
    }

    /// Request or reply.
    pub fn class(&self) -> Class {
        self.message.delivery.class
    }
}

impl<S> Clone for Returned<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Returned<'_, S> {}

impl<S> fmt::Debug for Returned<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("reason", &self.reason)
            .field("fate", &self.fate)
            .field("message", &self.message)
            .finish()
    }
}
