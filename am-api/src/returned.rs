//! Messages that come back to their sender.

use std::fmt;
use std::ops::Deref;

use proto::ReturnReason;
use wire::Class;

use crate::{Message, Remote};

/// A message of this endpoint that could not be delivered, with everything it
/// carried (AM-II's return to sender).
///
/// It derefs to the [`Message`] as it was sent. It was not acknowledged; when
/// only the acknowledgement was lost, it may have been handled all the same.
#[derive(Clone, Copy)]
pub struct Returned<'a> {
    pub(crate) message: Message<'a>,
    pub(crate) reason: ReturnReason,
}

impl<'a> Returned<'a> {
    /// Why.
    pub fn reason(&self) -> ReturnReason {
        self.reason
    }

    /// Whom it was for.
    pub fn to(&self) -> Remote {
        Remote(self.message.delivery.flow)
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
        f.debug_struct("Returned").field("reason", &self.reason).field("message", &self.message).finish()
    }
}
