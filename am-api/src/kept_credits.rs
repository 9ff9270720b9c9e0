//! What the node knows of the messages that were kept.

use std::cell::Cell;

use am_proto::FlowId;
use am_ring::{Lender, Loan};
use am_wire::Class;

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
    pub(crate) fn hold(&mut self, kept: &Cell<Option<usize>>, flow: FlowId, class: Class) -> Option<Loan> {
        if let Some(place) = kept.get() {
            return self.lender.lend_again(place);
        }
        let loan = self.lender.lend()?;
        self.whose[loan.place()] = Some((flow, class));
        kept.set(Some(loan.place()));
        Some(loan)
    }

    /// A credit whose message was dropped.
    pub(crate) fn gone(&mut self) -> Option<(FlowId, Class)> {
        self.whose[self.lender.come_back()?].take()
    }
}
