//! Received messages that outlive their handler: the frame is kept instead of being copied (the receiving half of the
//! hybrid of copy and DMA).

use std::fmt;
use std::ops::Deref;

use am_proto::{Delivery, Words};
use am_ring::{Frame, Lease};

use crate::endpoint::Head;
use crate::waker::CreditWaker;
use crate::{Connection, HandlerId, Message};

/// A message kept beyond its handler, in the memory that the NIC wrote it to: [`Message::keep`] gives it. It derefs to the
/// payload, may go to another thread, and may outlive the node.
///
/// **What it costs**: the sender's credit *is* this frame. It returns with the first poll after the last `OwnedMessage` of
/// the frame was dropped. A program that keeps many slows their senders down; one that keeps them for long should copy.
pub struct OwnedMessage {
    delivery: Delivery<Frame>,
    words: Words,
    /// Dropped after the frame, because a credit promises a free frame. `None` for a returned message.
    _credit: Option<Lease>,
    /// Dropped last: it tells the node of the credit.
    _waker: Option<CreditWaker>,
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<OwnedMessage>();
};

impl<S> Message<'_, S> {
    /// Keep the message when the handler returns, without copying it.
    ///
    /// ```
    /// use am_api::{Endpoint, HandlerId, OwnedMessage, Request};
    ///
    /// fn collect(endpoint: &mut Endpoint<Vec<OwnedMessage>>) {
    ///     endpoint.on_request(HandlerId(0), |kept, Request { message, .. }| kept.push(message.keep()));
    /// }
    /// ```
    pub fn keep(&self) -> OwnedMessage {
        let &Delivery { flow, class, .. } = self.delivery;
        let node = &mut *self.endpoint().node.borrow_mut();
        let with_credit = self.kept.filter(|_| self.delivery.has_credit());
        let credit = with_credit.and_then(|kept| node.kept.hold(kept, flow, class));
        let waker = credit.as_ref().and_then(|_| Some(node.waiter().ok()?.credit_waker()));
        OwnedMessage { delivery: self.delivery.share(), words: self.delivery.words(), _credit: credit, _waker: waker }
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

    /// Its connection, which names the sender.
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
