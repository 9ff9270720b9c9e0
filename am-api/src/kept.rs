//! Received messages that outlive their handler: the frame is kept instead of
//! being copied (the receiving half of the hybrid of copy and DMA).

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use proto::{Delivery, FlowId, Words};
use ring::{Frame, Lender, Loan};
use wire::Class;

use crate::message::Head;
use crate::shared::Shared;
use crate::{Handler, Message, Remote};

/// A message kept beyond its handler, in the memory that the NIC wrote it to:
/// [`Message::keep`] gives it. It derefs to the payload, may go to another
/// thread, and may outlive the node.
///
/// **What it costs**: the sender's credit *is* this frame, so it returns only
/// after this was dropped, with a poll of the node. Who keeps many slows their
/// senders down; who keeps for long should copy.
pub struct Kept {
    delivery: Delivery<Frame>,
    words: Words,
    /// Goes behind the frame: a credit is a frame that is at home. `None` for
    /// what this side sent itself, and got back.
    _hold: Option<Loan>,
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Kept>();
};

impl Message<'_> {
    /// Keep the message when the handler returns, without copying it.
    ///
    /// ```
    /// use am_api::{Endpoint, Handler, Kept};
    ///
    /// fn collect(endpoint: &mut Endpoint<Vec<Kept>>) {
    ///     endpoint.on_request(Handler(0), |kept: &mut Vec<Kept>, message, _| kept.push(message.keep()));
    /// }
    /// ```
    pub fn keep(&self) -> Kept {
        let &Delivery { flow, class, .. } = self.delivery;
        let hold = self.kept.and_then(|kept| self.port.shared.borrow_mut().kept.hold(kept, flow, class));
        Kept { delivery: self.delivery.share(), words: self.delivery.words(), _hold: hold }
    }
}

impl Kept {
    /// Its word arguments.
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// The word argument at this place, 0 where the message has none there.
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }

    /// The handler that it named.
    pub fn handler(&self) -> Handler {
        Handler(self.delivery.handler)
    }

    /// The other side of its conversation.
    pub fn from(&self) -> Remote {
        Remote(self.delivery.flow)
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.delivery.payload()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("words", &self.words()).field("payload", &Head(self)).finish_non_exhaustive()
    }
}

/// The credits that stay away because their messages are kept. Those are
/// dropped on any thread, and only the node's may touch the protocol.
#[derive(Debug)]
pub(crate) struct KeptCredits {
    lender: Lender,
    /// By place: whose credit it is.
    whose: Box<[Option<(FlowId, Class)>]>,
}

impl KeptCredits {
    /// Places for so many messages.
    pub(crate) fn new(count: usize) -> Self {
        KeptCredits { lender: Lender::new(count), whose: vec![None; count].into() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lender.is_empty()
    }

    /// A handle on this message's credit, the first or one more. `None` where
    /// more is kept than can be on its way: that credit returns at once.
    fn hold(&mut self, kept: &Cell<Option<usize>>, flow: FlowId, class: Class) -> Option<Loan> {
        if let Some(place) = kept.get() {
            return self.lender.lend_again(place);
        }
        let loan = self.lender.lend()?;
        self.whose[loan.place()] = Some((flow, class));
        kept.set(Some(loan.place()));
        Some(loan)
    }

    /// A credit whose message nobody keeps any more.
    fn gone(&mut self) -> Option<(FlowId, Class)> {
        self.whose[self.lender.come_back()?].take()
    }
}

impl Shared {
    /// Credits of kept messages that were dropped return to their senders.
    #[cold]
    pub(crate) fn release_dropped(&mut self) {
        while let Some((flow, class)) = self.kept.gone() {
            self.core().release(flow, class);
        }
    }
}
