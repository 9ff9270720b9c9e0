//! Connections end, and their transfers with them. Both ends hear of each, with the reason: a peer's connection is forgotten when
//! it ends, so that its reason is noted when it is told.

use std::mem;

use am_proto::{Core, EndpointId, FlowId, FlowState, ReturnReason};
use am_ring::Frame;

use super::incoming::IncomingPut;
use super::{Bulk, TransferError};

impl Bulk {
    /// A connection has ended, not by our own doing.
    pub(crate) fn on_ended(&mut self, endpoint: EndpointId, flow: FlowId, reason: ReturnReason) {
        self.ended.insert(flow, (endpoint, reason));
    }

    /// Part of a turn with transfers or events, behind these.
    #[inline(never)]
    pub(crate) fn end_dead(&mut self, core: &mut Core<Frame>) {
        for at in (0..self.outgoing.len()).rev() {
            let (completion, from) = (self.outgoing[at].completion, self.outgoing[at].arrived());
            if let Some(reason) = self.ended_for_good(core, completion.endpoint, completion.flow) {
                self.end_outgoing(at, Err(TransferError::Lost { reason, from }));
            }
        }
        for at in (0..self.pending.len()).rev() {
            let (completion, from) = (self.pending[at].completion, self.pending[at].extent.front);
            if let Some(reason) = self.ended_for_good(core, completion.endpoint, completion.flow) {
                self.complete_get(at, Err(TransferError::Lost { reason, from }));
            }
        }
        self.end_arrivals(core);
        if !self.ended.is_empty() {
            let mut ended = mem::take(&mut self.ended);
            ended.retain(|&flow, &mut (endpoint, _)| self.is_on(flow) || core.has_bulk_of(endpoint, flow));
            self.ended = ended;
        }
    }

    /// Puts of peers: where a connection is known to have ended all are looked at, otherwise one a turn.
    fn end_arrivals(&mut self, core: &mut Core<Frame>) {
        // A restarted peer counts its transfers from the start.
        if self.refused.front().is_some_and(|(flow, _)| self.reason(core, *flow).is_some()) {
            self.refused.pop_front();
        }
        self.look_at = if self.look_at < self.incoming.len() { self.look_at } else { 0 };
        let looked_at = if self.ended.is_empty() { self.look_at..self.look_at + 1 } else { 0..self.incoming.len() };
        for at in looked_at.rev() {
            let Some(&IncomingPut { endpoint, flow, extent, .. }) = self.incoming.get(at) else { continue };
            if let Some(reason) = self.ended_for_good(core, endpoint, flow) {
                self.complete_put(at, Err(TransferError::Lost { reason, from: extent.front }));
            }
        }
        self.look_at += 1;
    }

    fn is_on(&self, flow: FlowId) -> bool {
        self.outgoing.iter().any(|outgoing| outgoing.completion.flow == flow)
            || self.pending.iter().any(|pending| pending.completion.flow == flow)
            || self.incoming.iter().any(|incoming| incoming.flow == flow)
    }

    /// Why, once everything that had come is taken in, and everything that comes back is back.
    fn ended_for_good(&self, core: &mut Core<Frame>, endpoint: EndpointId, flow: FlowId) -> Option<ReturnReason> {
        let reason = self.reason(core, flow)?;
        let goes_on =
            core.has_unacknowledged(flow) || core.has_returned_to(endpoint) || core.has_bulk_of(endpoint, flow);
        (!goes_on).then_some(reason)
    }

    /// Why it has ended, if it has.
    fn reason(&self, core: &Core<Frame>, flow: FlowId) -> Option<ReturnReason> {
        match core.state(flow) {
            FlowState::Open { .. } | FlowState::Connecting => None,
            FlowState::Ended(reason) => Some(reason),
            FlowState::Refused(_) | FlowState::Unknown => {
                Some(self.ended.get(&flow).map_or(ReturnReason::Closed, |&(_, reason)| reason))
            }
        }
    }
}
