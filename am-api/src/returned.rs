//! Messages that come back to their sender.

use std::fmt;
use std::ops::Deref;

use am_proto::{Fate, ReturnReason};
use am_wire::Class;

use crate::{Connection, Message};

/// A message of this endpoint that could not be delivered, with everything it
/// carried (AM-II's return to sender).
///
/// It derefs to the [`Message`] as it was sent. [`Returned::fate`] says whether it may be sent again without being handled twice.
#[derive(Clone, Copy)]
pub struct Returned<'a> {
    pub(crate) message: Message<'a>,
    pub(crate) reason: ReturnReason,
    pub(crate) fate: Fate,
}

impl<'a> Returned<'a> {
    /// Why.
    pub fn reason(&self) -> ReturnReason {
        self.reason
    }

    /// Whether a handler of the peer may have had it. It is [unknown](Fate::Unknown) only where the peer crashed, was started
    /// again or is silent, and of messages that had left before.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// The conversation that it was sent on.
    pub fn to(&self) -> Connection {
        Connection(self.message.delivery.flow)
    }

    /// Request or reply.
    pub fn class(&self) -> Class {
        self.message.delivery.class
    }
}

impl<'a> Deref for Returned<'a> {
    type Target = Message<'a>;

    fn deref(&self) -> &Message<'a> {
        &self.message
    }
}

impl fmt::Debug for Returned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("reason", &self.reason)
            .field("fate", &self.fate)
            .field("message", &self.message)
            .finish()
    }
}
