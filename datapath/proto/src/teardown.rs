//! Teardown: a flow ends because it fails or because the peer closes it. Unacknowledged messages return to their
//! senders (AM-II's return-to-sender error model, Chun et al., "Error handling").

use am_wire::control::{CloseCause, FinalAck, FinalAcks, Name};
use am_wire::{Buffer, Class, Kind, Seq, expand};

use crate::control_queue::DeferredControl;
use crate::endpoint::UnhandledSeqs;
use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Command, Event, Fate, FlowEnd, ReturnReason, Returned};
use crate::slots::NO_SLOT;
use crate::{EndpointId, FlowId};

/// Why an endpoint could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Another endpoint has this name.
    #[error("this node already has an endpoint named `{0}`: choose another name, or close that endpoint")]
    NameTaken(Name),
    /// All 65,535 endpoints are in use.
    #[error("all 65535 endpoints of this node are in use: close some that are no longer needed")]
    TooMany,
    /// This process was forked.
    #[error("{}", crate::FORKED)]
    Forked,
}

impl<B: Buffer> Core<B> {
    /// From above: create an endpoint. A peer must name its tag to open a flow to it.
    ///
    /// # Errors
    /// The name is taken, or there are too many endpoints.
    pub fn add_endpoint(&mut self, name: Name, tag: u64) -> Result<EndpointId, EndpointError> {
        if self.flows.is_forked {
            return Err(EndpointError::Forked);
        }
        if self.endpoints.by_name(name).is_some() {
            return Err(EndpointError::NameTaken(name));
        }
        self.endpoints.add(name, tag).ok_or(EndpointError::TooMany)
    }

    /// End a flow that this side did not close. `acks` is the peer's final acknowledgements. A flow that the peer
    /// set up is removed; its state still says why it ended. A flow that this node set up stays until it is closed, so that the program can ask why it
    /// ended.
    pub(crate) fn end_flow(&mut self, id: FlowId, reason: ReturnReason, acks: Option<&FinalAcks>) {
        let was_open = self.flows.get(id).is_some_and(|record| record.phase == Phase::Open);
        self.end_flow_silently(id, reason, acks);
        // The peer may only have been out of reach, or its new run may have accepted the flow. Notified, it frees its
        // half.
        if was_open && !matches!(reason, ReturnReason::Closed | ReturnReason::Tag) {
            self.sending.deferred_control.push_back(DeferredControl::Closed(id.flow));
        }
    }

    /// As [`Core::end_flow`], without notifying the peer.
    pub(crate) fn end_flow_silently(&mut self, id: FlowId, reason: ReturnReason, acks: Option<&FinalAcks>) {
        self.run_deferred(self.now);
        let Some(record) = self.flows.get_mut(id) else { return };
        let (phase, endpoint, ours) = (record.phase, record.endpoint, record.setup.is_ours);
        let (node, peer) = (record.peer.node_name, record.peer.endpoint);
        match phase {
            Phase::Ended(_) | Phase::Closing => return,
            Phase::Open => {
                let own_acks = record.final_acks(&UnhandledSeqs::new());
                self.discovery.unknown_flows.remember(record, own_acks);
            }
            Phase::Connecting(_) | Phase::Refused(_) => {}
        }
        self.retire_flow(id, Phase::Ended(reason));
        let unhandled = self.return_all(id, reason, acks);
        self.outputs.events.push_back(match phase {
            Phase::Connecting(_) => Event::SetupFinished(endpoint, id),
            _ => Event::Ended(endpoint, id, FlowEnd { node, endpoint: peer, reason, unhandled }),
        });
        if !ours {
            self.flows.remove_ended(id, reason);
        }
    }

    /// Take a flow out of service: release its credits, flush its reorder buffer, stop steering.
    pub(crate) fn retire_flow(&mut self, id: FlowId, phase: Phase) {
        let Some(record) = self.flows.get_mut(id) else { return };
        if matches!(record.phase, Phase::Ended(_)) {
            return;
        }
        match (record.phase, record.peer.node) {
            (Phase::Connecting(_), _) => self.discovery.unknown_flows.remember_unanswered(record.setup.id),
            (Phase::Open, Some((node, _))) => self.discovery.peers.remove_flow(node),
            _ => {}
        }
        record.phase = phase;
        record.receive.0.iter_mut().for_each(|queue| self.receiving.budget.release(queue.close()));
        record.reordering.take().into_iter().for_each(|order| self.receiving.gaps.release_reordering(order));
        self.receiving.senders.remove_flow(record.sender, self.discovery.peers.hash(record.peer.node_name));
        self.receiving.budget.peers = self.receiving.senders.count();
        self.endpoints.flush_reorder_buffer(record);
        self.endpoints.refused.retain(|&(flow, ..)| flow != id.flow);
        self.outputs.commands.push_back(Command::Steer(id.flow, false));
    }

    /// Return to their endpoint all messages that were sent or wait for credit, except those that the peer received.
    /// Returns, by class, how many messages the peer acknowledged but did not handle: its final acknowledgement does
    /// not cover them.
    pub(crate) fn return_all(&mut self, id: FlowId, reason: ReturnReason, acks: Option<&FinalAcks>) -> [u32; 2] {
        Class::ALL.map(|class| self.return_class(id, class, reason, acks.map(|acks| acks.classes[class.index()])))
    }

    fn return_class(&mut self, id: FlowId, class: Class, reason: ReturnReason, ack: Option<FinalAck>) -> u32 {
        let Some(record) = self.flows.get_mut(id) else { return 0 };
        let (endpoint, body_at) = (record.endpoint, record.route.framing.body_at());
        let ack = ack.filter(|ack| record.send[class].is_plausible(ack.before));
        let mut unhandled = ack.map_or(0, |ack| record.send[class].count_unhandled(&ack));
        let is_ordered = |kind| record.setup.is_ordered && !matches!(kind, Kind::Put | Kind::Get);
        let (mut link, unacked) = record.send[class].drain();
        while link != NO_SLOT {
            let slot = &self.slots[link];
            let next = slot.next;
            let left = self.slots.left(link);
            for place in 0..slot.count {
                let seq = slot.seq.plus(place.into());
                let is_answered = class == Class::Request && is_ordered(slot.kind) && record.is_answered(seq);
                let status = ack.map(|ack| final_status(&ack, seq)).or(is_answered.then_some(FinalStatus::Received));
                let is_left = left.left >> place & 1 == 1;
                let message = if is_left { slot.message(place, id, body_at) } else { None };
                match (message, status) {
                    (_, Some(FinalStatus::Received)) => {}
                    // A refused message was returned already. The final acknowledgement counts those before `unacked`.
                    _ if left.returned >> place & 1 == 1 || seq.before(unacked) => {}
                    (None, Some(_)) => unhandled += 1,
                    (None, None) => {}
                    (Some(message), status) => {
                        let is_certain = slot.times_sent == 0
                            || status == Some(FinalStatus::Missing)
                            || status == Some(FinalStatus::Beyond) && is_ordered(message.kind);
                        let fate = if is_certain { Fate::NotDelivered } else { Fate::Unknown };
                        self.counters.returned += 1;
                        self.endpoints.push_returned(endpoint, Returned { reason, fate, message });
                    }
                }
            }
            self.slots.release(link);
            link = next;
        }
        unhandled
    }

    /// Getter: whether any endpoint has returned messages.
    #[inline]
    pub fn has_returned(&self) -> bool {
        self.endpoints.returned_count > 0
    }

    /// Getter: whether this endpoint has returned messages.
    pub fn has_returned_to(&mut self, endpoint: EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| !endpoint.returned.is_empty())
    }

    /// Output: the next returned message of this endpoint.
    pub fn poll_returned(&mut self, endpoint: EndpointId) -> Option<Returned<B>> {
        self.endpoints.pop_returned(endpoint)
    }
}

/// The status of a message in a final acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalStatus {
    Received,
    Missing,
    /// The message is beyond the acknowledgement's range. On an ordered flow no handler ran for it.
    Beyond,
}

fn final_status(ack: &FinalAck, seq: Seq) -> FinalStatus {
    match seq.since(ack.before) {
        ..0 => FinalStatus::Received,
        0 => FinalStatus::Missing,
        distance if distance as u32 > u64::BITS => FinalStatus::Beyond,
        distance if ack.sack >> (distance - 1) & 1 == 1 => FinalStatus::Received,
        _ => FinalStatus::Missing,
    }
}

impl FlowRecord {
    /// What arrived on this flow, except the messages that no handler will get.
    pub(crate) fn final_acks(&self, unhandled: &UnhandledSeqs) -> FinalAcks {
        let classes = Class::ALL.map(|class| {
            let queue = &self.receive[class];
            let without = unhandled.get(&(self.id.flow, class)).map(Vec::as_slice).unwrap_or_default();
            // Some numbers may be of an earlier use of the flow id.
            let near = |&low: &u16| expand(low as u32, 16, queue.next_expected());
            let without: Vec<Seq> = without.iter().map(near).filter(|&seq| queue.has_arrived(seq)).collect();
            queue.final_ack(&without)
        });
        FinalAcks { cause: CloseCause::Closed, classes }
    }
}
