//! Which long messages may lack segments, because some were dropped before the heads of their messages had arrived.

use std::collections::HashMap;

use am_proto::{Core, FlowId};
use am_ring::Frame;
use am_wire::long::Head;

/// The last message of each connection that lost segments before its head had arrived.
///
/// A sender numbers its messages in order, so later ones lost nothing. An earlier one may have lost segments as long as its head has not
/// arrived. Heads of requests and of replies overtake each other, so a later head does not end this.
#[derive(Default)]
pub(super) struct DroppedEarly(HashMap<FlowId, u32>);

impl DroppedEarly {
    /// A head with a number this far beyond the last such message ends the memory of it, before the numbers begin anew. No sender has this
    /// many messages in flight.
    const FAR: u32 = (Head::MAX_ID >> 2) + 1;

    /// A segment of this message was dropped, or may arrive after the message has ended.
    pub(super) fn note(&mut self, core: &Core<Frame>, flow: FlowId, id: u32) {
        if let Some(last) = self.0.get_mut(&flow) {
            if is_after(id, *last) {
                *last = id;
            }
            return;
        }
        // Those of connections that the core has forgotten.
        self.0.retain(|&flow, _| core.peer_names(flow).is_some());
        self.0.insert(flow, id);
    }

    /// Whether segments of this message may have been dropped.
    pub(super) fn may_have(&self, flow: FlowId, id: u32) -> bool {
        self.0.get(&flow).is_some_and(|&last| !is_after(id, last))
    }

    /// The head of a message arrived. Returns whether its segments may have been dropped.
    pub(super) fn on_head(&mut self, flow: FlowId, id: u32) -> bool {
        let may_have = self.may_have(flow, id);
        if !may_have && self.0.get(&flow).is_some_and(|&last| distance(last, id) >= Self::FAR) {
            self.0.remove(&flow);
        }
        may_have
    }
}

/// How many messages after `from` this one is. The numbers begin anew after the largest.
fn distance(from: u32, id: u32) -> u32 {
    id.wrapping_sub(from) & Head::MAX_ID
}

fn is_after(id: u32, last: u32) -> bool {
    (1..=Head::MAX_ID / 2).contains(&distance(last, id))
}
