//! The reorder buffer: messages that arrived before an earlier one of their flow and class. They wait for it, so that
//! handlers get a flow's requests in the order in which they were sent, and its replies likewise.
//!
//! Pushed by: frames from below that arrive behind a gap. Popped by: the message that closes the gap; the flow's end,
//! because the sender knows that they arrived. Bounded by: a quarter of the room for all waiting messages. When full: a
//! message behind a gap is not accepted, and is sent again. The message that closes a gap needs no place here, so a
//! full buffer always drains.

use std::collections::HashMap;

use am_wire::{Class, Flow, Seq};

use crate::WINDOW;
use crate::output::Delivery;

#[derive(Debug)]
pub(crate) struct ReorderBuffer<B> {
    messages: HashMap<(Flow, Class, Seq), Delivery<B>>,
    capacity: usize,
}

impl<B> ReorderBuffer<B> {
    pub(crate) fn new(most: usize) -> Self {
        ReorderBuffer { messages: HashMap::with_capacity(2 * most.min(WINDOW)), capacity: most }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.messages.len() >= self.capacity
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn push(&mut self, seq: Seq, message: Delivery<B>) {
        self.messages.insert((message.flow.flow, message.class, seq), message);
    }

    pub(crate) fn pop(&mut self, flow: Flow, class: Class, seq: Seq) -> Option<Delivery<B>> {
        self.messages.remove(&(flow, class, seq))
    }

    /// The sequence numbers of all held messages of a flow and class, in order, starting from `near`.
    pub(crate) fn held_seqs(&self, flow: Flow, class: Class, near: Seq) -> Vec<Seq> {
        let of_it = self.messages.keys().filter(|&&(of, kind, _)| (of, kind) == (flow, class));
        let mut numbers: Vec<Seq> = of_it.map(|&(.., seq)| seq).collect();
        numbers.sort_unstable_by_key(|seq| seq.since(near));
        numbers
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &B> {
        self.messages.values().map(|message| &message.frame)
    }
}
