//! The credits of messages that handlers keep.

use std::cell::Cell;

use am_proto::FlowId;
use am_ring::{Lease, LeaseTable};
use am_wire::Class;

/// The credits of kept messages. A message may be dropped on any thread, but only the node's may return its credit.
#[derive(Debug)]
pub(crate) struct KeptCredits {
    lender: LeaseTable,
    /// By place in `lender`: whose credit it is.
    owners: Box<[Option<(FlowId, Class)>]>,
}

impl KeptCredits {
    /// Room for so many messages.
    pub(crate) fn new(count: usize) -> Self {
        KeptCredits { lender: LeaseTable::new(count), owners: vec![None; count].into() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lender.is_empty()
    }

    /// A handle on this message's credit, the first or one more. `None` if more messages are kept than can be in flight:
    /// that credit returns at once.
    pub(crate) fn hold(&mut self, kept: &Cell<Option<usize>>, flow: FlowId, class: Class) -> Option<Lease> {
        if let Some(place) = kept.get() {
            return self.lender.lease_again(place);
        }
        let loan = self.lender.lease()?;
        self.owners[loan.place()] = Some((flow, class));
        kept.set(Some(loan.place()));
        Some(loan)
    }

    /// The credit of a message that was dropped.
    pub(crate) fn next_dropped(&mut self) -> Option<(FlowId, Class)> {
        self.owners[self.lender.reclaim()?].take()
    }
}
