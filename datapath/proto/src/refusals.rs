//! Messages for a handler that does not exist. The receiver refuses the message's sequence number, and the message, of
//! which the sender has kept the frame, returns to the sender's endpoint (AM-II: an undeliverable message returns).
//!
//! ```text
//!   sender                                    receiver
//!   message ────────────────────────────────▶ no such handler: the number is refused, and stays so
//!   returns, `NotDelivered` ◀────── NoHandler ┤   (each copy that arrives is answered again)
//!   its slot now sends Withdrawn ───────────▶ the number counts as arrived, its credit is released
//!   the slot is free ◀─── acknowledgement ────┘
//! ```
//!
//! A refused number is never accepted with a message, even if the handler is added meanwhile. So a returned message was
//! certainly not handled. On an ordered flow, later messages wait in the reorder buffer for the withdrawal. If the flow
//! ends before the refusal arrives, the message returns like any other that did not arrive.
//!
//! The refused numbers are pushed by: messages without a handler. Popped by: their withdrawal; the flow's end. Bounded
//! by: [`MAX_REFUSED`]. When full: the message is rejected as if there were no room, and is sent again.

use std::collections::VecDeque;

use am_wire::frame::ParsedFrame;
use am_wire::{Buffer, Class, Flow, Reason, Reject, Seq, expand};

use crate::EndpointId;
use crate::control_queue::PendingReject;
use crate::counters::Counters;
use crate::flow::FlowRecord;
use crate::handler_set::{HandlerSet, RefusedSeqs};
use crate::node::{Core, MAX_PENDING_REJECTS};
use crate::output::{Fate, ReturnReason, Returned};
use crate::receive_queue::Verdict;
use crate::segment_key::{SegmentKey, is_auth_code, split_auth_code};

/// The most numbers that are refused and not withdrawn yet, all flows together: 16 flows with a full window in each class.
const MAX_REFUSED: usize = 16 << 10;

impl<B: Buffer> Core<B> {
    /// From above: this endpoint has every handler, as a new endpoint does, or none. Messages for a handler that it does
    /// not have return to their senders with [`ReturnReason::NoHandler`].
    pub fn set_all_handlers(&mut self, endpoint: EndpointId, exist: bool) {
        if let Some(endpoint) = self.endpoints.get(endpoint) {
            let set = || if exist { HandlerSet::ALL } else { HandlerSet::NONE };
            endpoint.handlers.0 = [set(), set()];
        }
    }

    /// From above: this endpoint has this handler for this class from now on.
    pub fn add_handler(&mut self, endpoint: EndpointId, class: Class, handler: u8) {
        if let Some(endpoint) = self.endpoints.get(endpoint) {
            endpoint.handlers[class].add(handler);
        }
    }

    /// The endpoint has no handler for this message.
    #[cold]
    pub(crate) fn refuse(&mut self, flow: Flow, class: Class, seq: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        record.refuse(class, seq, &mut self.endpoints.refused, &mut self.sending.pending_rejects, &mut self.counters);
    }

    /// The peer rejected or refused a message of this node, or withdraws one of its own.
    #[cold]
    pub(crate) fn on_any_reject(&mut self, parsed: &ParsedFrame<'_>) -> Result<(), Reason> {
        let (header, framing) = (&parsed.header, parsed.framing);
        let (content, code) = match &self.config.key {
            Some(_) => split_auth_code(parsed.payload),
            None => (parsed.payload, &[][..]),
        };
        let what = Reject::parse(content)?;
        let record = self.flows.open_flow_of(parsed, &mut self.deferred.dirty)?;
        let near = match what {
            Reject::NoRoom => record.send[Class::Request].expansion_base().0,
            Reject::NoHandler(class) => record.send[class].expansion_base().0,
            Reject::Withdrawn(class) => record.receive[class].next_expected(),
        };
        let seq = expand(header.seq, framing.seq_bits(), near);
        let addresses = [self.config.address, record.route.to];
        let half = (record.id.flow, record.id.nonce);
        let is_authentic = |key: &SegmentKey| is_auth_code(&key.reject_code(addresses, half, seq, content), code);
        if !self.config.key.as_ref().is_none_or(is_authentic) {
            self.note_unauthenticated();
            return Ok(());
        }
        match what {
            Reject::NoRoom => self.on_reject(header.flow, seq),
            Reject::NoHandler(class) => self.on_refused(header.flow, class, seq),
            Reject::Withdrawn(class) => self.on_withdrawn(header.flow, class, seq),
        }
        Ok(())
    }

    /// The peer has no handler for this message: return it. The slot keeps its number until the withdrawal is acknowledged.
    fn on_refused(&mut self, flow: Flow, class: Class, seq: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let Some((link, place)) = record.send[class].find_in_flight(&self.slots, seq) else {
            self.counters.rejects_stale += 1;
            return;
        };
        let (endpoint, id, body_at) = (record.endpoint, record.id, record.route.framing.body_at());
        if self.slots.left(link).returned >> place & 1 == 0 {
            let Some(message) = self.slots[link].message(place, id, body_at) else { return };
            self.slots.left_mut(link).returned |= 1 << place;
            self.counters.returned += 1;
            let returned = Returned { reason: ReturnReason::NoHandler, fate: Fate::NotDelivered, message };
            self.endpoints.push_returned(endpoint, returned);
        }
        self.slots.send_again(link);
    }

    /// The peer withdraws a refused message: its number counts as arrived. This needs no room.
    fn on_withdrawn(&mut self, flow: Flow, class: Class, seq: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let verdict = record.receive[class].verdict(seq);
        let id = record.id;
        record.queue_ack(&mut self.sending.acks_due);
        if matches!(verdict, Verdict::Duplicate | Verdict::Beyond) {
            return record.on_not_new(verdict, class, seq, &mut self.receiving.gaps, &mut self.counters);
        }
        self.endpoints.refused.remove(&(flow, class, seq));
        record.accept(class, seq, verdict, self.time.timing.ack_every, &mut self.receiving.gaps);
        self.endpoints.deliver_behind(record, class, seq.plus(1));
        self.release(id, class, 1);
    }
}

impl FlowRecord {
    /// Refuse this number. A copy of a message that was refused before is answered again.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        class: Class,
        seq: Seq,
        refused: &mut RefusedSeqs,
        pending: &mut VecDeque<PendingReject>,
        counters: &mut Counters,
    ) {
        let number = (self.id.flow, class, seq);
        if !refused.contains(&number) {
            if refused.len() >= MAX_REFUSED {
                return self.reject(class, seq, false, pending, counters);
            }
            refused.insert(number);
            counters.no_handler += 1;
        }
        if pending.len() < MAX_PENDING_REJECTS {
            pending.push_back(PendingReject { flow: self.id, seq, what: Reject::NoHandler(class) });
        } else {
            counters.rejects_dropped += 1;
        }
    }
}
