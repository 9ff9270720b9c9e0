//! This process's calls that have no result yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use am_ordered::MessageId;

use crate::error::CallError;
use crate::slot::{Outcome, Slot};

#[derive(Debug, Default)]
pub(crate) struct Calls {
    next: u64,
    pending: BTreeMap<u64, Pending>,
    by_message: BTreeMap<MessageId, u64>,
}

#[derive(Debug)]
struct Pending {
    slot: Arc<Slot>,
    /// By the node's clock. `None` once it has its place: then it waits for its guard alone.
    until: Option<Duration>,
    message: Option<MessageId>,
}

impl Calls {
    /// A call that leaves now. Returns its number.
    pub(crate) fn begin(&mut self, slot: Arc<Slot>, until: Duration) -> u64 {
        let call = self.next;
        self.next += 1;
        self.pending.insert(call, Pending { slot, until: Some(until), message: None });
        call
    }

    /// The call has left as this message.
    pub(crate) fn left_as(&mut self, call: u64, message: MessageId) {
        if let Some(pending) = self.pending.get_mut(&call).filter(|pending| pending.until.is_some()) {
            pending.message = Some(message);
            self.by_message.insert(message, call);
        }
    }

    /// The call has its place in the order.
    pub(crate) fn placed(&mut self, call: u64) {
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.until = None;
            pending.message.take().map(|message| self.by_message.remove(&message));
        }
    }

    /// The number of a call that waits for its guard.
    pub(crate) fn waiting(&self, slot: &Arc<Slot>) -> Option<u64> {
        let is_it = |pending: &Pending| pending.until.is_none() && Arc::ptr_eq(&pending.slot, slot);
        self.pending.iter().find(|(_, pending)| is_it(pending)).map(|(call, _)| *call)
    }

    pub(crate) fn end(&mut self, call: u64, outcome: Outcome) {
        if let Some(pending) = self.pending.remove(&call) {
            pending.message.map(|message| self.by_message.remove(&message));
            pending.slot.put(outcome);
        }
    }

    /// A message came back.
    pub(crate) fn returned(&mut self, message: MessageId, may_be_delivered: bool) {
        if let Some(call) = self.by_message.get(&message).copied() {
            self.end(call, Err(if may_be_delivered { CallError::Unknown } else { CallError::NotRun }));
        }
    }

    /// This process goes on with the state of another one. A write that waited here, and does not there, has run.
    pub(crate) fn keep_waiting(&mut self, waits: impl Fn(u64) -> bool) {
        let has_run = |(call, pending): (&u64, &Pending)| (pending.until.is_none() && !waits(*call)).then_some(*call);
        for call in self.pending.iter().filter_map(has_run).collect::<Vec<_>>() {
            self.end(call, Err(CallError::Unknown));
        }
    }

    /// Calls that have waited for their place for too long end.
    pub(crate) fn expire(&mut self, now: Duration) {
        let is_late = |pending: &Pending| pending.until.is_some_and(|until| until <= now);
        // They leave in the order of their times, and those that have a place are passed over.
        let placed = |pending: &Pending| pending.until.is_none();
        let late = self.pending.iter().take_while(|(_, pending)| placed(pending) || is_late(pending));
        for call in late.filter(|(_, pending)| is_late(pending)).map(|(call, _)| *call).collect::<Vec<_>>() {
            self.end(call, Err(CallError::Unknown));
        }
    }

    pub(crate) fn end_all(&mut self, why: CallError) {
        while let Some((call, _)) = self.pending.first_key_value() {
            self.end(*call, Err(why));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}
