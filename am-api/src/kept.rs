//! Received messages that outlive their handler: the frame is kept instead of
//! being copied (the receiving half of the hybrid of copy and DMA).

use std::fmt;
use std::ops::Deref;

use am_proto::{Delivery, Words};
use am_ring::{Frame, Loan};

use crate::message::Head;
use crate::{Connection, HandlerId, Message};

/// A message kept beyond its handler, in the memory that the NIC wrote it to:
/// [`Message::keep`] gives it. It derefs to the payload, may go to another
/// thread, and may outlive the node.
///
/// **What it costs**: the sender's credit *is* this frame, so it returns only
/// after this was dropped, with a poll of the node. Who keeps many slows their
/// senders down; who keeps for long should copy.
pub struct OwnedMessage {
    delivery: Delivery<Frame>,
    words: Words,
    /// Goes behind the frame: a credit is a frame that is at home. `None` for
    /// what this side sent itself, and got back.
    _hold: Option<Loan>,
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<OwnedMessage>();
};

impl Message<'_> {
    /// Keep the message when the handler returns, without copying it.
    ///
    /// ```
    /// use am_api::{Endpoint, HandlerId, OwnedMessage};
    ///
    /// fn collect(endpoint: &mut Endpoint<Vec<OwnedMessage>>) {
    ///     endpoint.on_request(HandlerId(0), |kept: &mut Vec<OwnedMessage>, message, _| kept.push(message.keep()));
    /// }
    /// ```
    pub fn keep(&self) -> OwnedMessage {
        let &Delivery { flow, class, .. } = self.delivery;
        let hold = self.kept.and_then(|kept| self.port.shared.borrow_mut().kept.hold(kept, flow, class));
        OwnedMessage { delivery: self.delivery.share(), words: self.delivery.words(), _hold: hold }
    }
}

impl OwnedMessage {
    /// Its word arguments.
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// The word argument at this place, 0 where the message has none there.
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }

    /// The handler that it named.
    pub fn handler(&self) -> HandlerId {
        HandlerId(self.delivery.handler)
    }

    /// The other side of its conversation.
    pub fn from(&self) -> Connection {
        Connection(self.delivery.flow)
    }
}

impl Deref for OwnedMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.delivery.payload()
    }
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedMessage")
            .field("words", &self.words())
            .field("payload", &Head(self))
            .finish_non_exhaustive()
    }
}
