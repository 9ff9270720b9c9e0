//! Close. The side that closes a flow reports which messages it received, and the peer answers with its own report. So
//! each side knows of each returned message whether it was handled.
//!
//! ```text
//!   this side                                      the peer
//!   close ── Closing ── Close, what arrived here ──▶ returns the rest to its program, `Closed`
//!               ▲│ no answer: repeat                │
//!               └┘                                  │
//!   returns the rest to its program ◀── Closed, what arrived there
//! ```
//!
//! Admitted messages are still sent, ahead of the Close. Messages that wait for credit are not: they return.

use core::time::Duration;

use am_wire::control::{Close, CloseCause, Closed, Control, FinalAcks};
use am_wire::{Address, Buffer, Flow};

use crate::control_queue::DeferredControl;
use crate::endpoint::UnhandledSeqs;
use crate::flow::{FlowRecord, Phase, Setup};
use crate::node::Core;
use crate::output::{Event, FlowEnd, MessageNumber, ReturnReason};
use crate::time::TimerKind;
use crate::{EndpointId, FlowId};

/// For at least this long a Close is repeated. A peer that answers none of them counts as gone.
const MIN_CLOSING_TIME: Duration = Duration::from_millis(100);

impl<B: Buffer> Core<B> {
    /// From above: close a flow and notify the peer. From now on the flow is unknown here. Messages that the peer did not
    /// receive return as soon as it has answered.
    pub fn close(&mut self, id: FlowId) {
        self.flows.forget_ended(id);
        self.begin_close(id, &UnhandledSeqs::new(), CloseCause::Closed);
    }

    /// From above: close an endpoint and all its flows. Messages that wait to be extracted are dropped, and their
    /// senders learn that no handler got them, nor the messages in `dropped`, which were delivered. Heads of long messages
    /// count as received: the senders know themselves that these are not complete. Messages that the endpoint had sent are not
    /// returned to it.
    pub fn close_endpoint(&mut self, endpoint: EndpointId, dropped: &[MessageNumber]) {
        if self.endpoints.get(endpoint).is_none_or(|found| !found.had_flows) {
            self.endpoints.remove(endpoint);
            return;
        }
        let mut unhandled = self.endpoints.remove(endpoint);
        for &MessageNumber { flow, class, seq } in dropped {
            unhandled.entry((flow.flow, class)).or_default().push(seq);
        }
        for id in self.flows.filter(|record| record.endpoint == endpoint) {
            self.endpoints.drop_buffered(id.flow, &mut unhandled);
            self.begin_close(id, &unhandled, CloseCause::Closed);
            self.flows.get_mut(id).into_iter().for_each(|record| record.endpoint = EndpointId::NONE);
        }
    }

    /// From above: close every endpoint. Peers are notified with the next outputs.
    pub fn shut_down(&mut self) {
        (0..self.endpoints.endpoints.len()).for_each(|at| self.close_endpoint(EndpointId(at as u16), &[]));
    }

    /// Getter: how many messages are kept until they are acknowledged, all flows together.
    pub fn kept_messages(&self) -> usize {
        self.slots.count_left()
    }

    /// Getter: how many closed flows wait for their peer's answer.
    pub fn closing_flows(&self) -> usize {
        self.flows.iter_active().filter(|record| record.phase == Phase::Closing).count()
    }

    /// From above: change the tag. Flows that peers opened with the old tag are closed. Undelivered messages
    /// are returned on both sides with [`ReturnReason::Tag`].
    pub fn set_tag(&mut self, endpoint: EndpointId, tag: u64) {
        let Some(found) = self.endpoints.get(endpoint) else { return };
        found.tag = tag;
        let is_affected = |record: &FlowRecord| {
            record.endpoint == endpoint
                && record.phase == Phase::Open
                && !record.setup.is_ours
                && record.setup.tag != tag
        };
        for id in self.flows.filter(is_affected) {
            self.begin_close(id, &UnhandledSeqs::new(), CloseCause::Tag);
        }
    }

    fn begin_close(&mut self, id: FlowId, unhandled: &UnhandledSeqs, cause: CloseCause) {
        self.run_deferred(self.now);
        let Some(record) = self.flows.get_mut(id) else { return };
        match record.phase {
            Phase::Closing if unhandled.is_empty() => return,
            // The next Close carries the new numbers. A Close that has arrived already cannot be changed.
            Phase::Closing => {
                let known = self.discovery.unknown_flows.closed_flow(id.flow, Some(id.nonce));
                let cause = known.and_then(|known| known.closed.acks).map_or(cause, |acks| acks.cause);
                let acks = FinalAcks { cause, ..record.final_acks(unhandled) };
                return self.discovery.unknown_flows.remember(record, acks);
            }
            Phase::Open => {}
            _ => {
                self.retire_flow(id, Phase::Ended(ReturnReason::Closed));
                self.return_all(id, ReturnReason::Closed, None);
                return self.flows.remove(id.flow);
            }
        }
        let (until, acks) = (self.now + MIN_CLOSING_TIME, FinalAcks { cause, ..record.final_acks(unhandled) });
        record.setup = Setup { deadline: until, tries: 0, total_tries: 0, ..record.setup };
        self.discovery.unknown_flows.remember(record, acks);
        self.retire_flow(id, Phase::Closing);
        self.sending.deferred_control.push_back(DeferredControl::Close(id.flow));
    }

    pub(crate) fn next_close(&mut self, flow: Flow) -> Option<(Address, Control)> {
        let record = self.flows.by_flow(flow).filter(|record| record.phase == Phase::Closing)?;
        let (route, own, next) = (record.route, record.id, record.setup.next_try(self.now, false, Duration::ZERO));
        record.resend_timer.disarm();
        self.time.timers.arm(&mut record.resend_timer, TimerKind::Setup, flow.id(), next);
        let acks = self.discovery.unknown_flows.closed_flow(own.flow, Some(own.nonce))?.closed.acks?;
        let close = Close { flow: route.flow, nonce: route.nonce, own: own.flow, own_nonce: own.nonce, acks };
        Some((route.to, Control::Close(close)))
    }

    /// The peer has not answered: repeat the Close, or give up.
    pub(crate) fn repeat_close(&mut self, id: FlowId) {
        let Some(record) = self.flows.get(id) else { return };
        if record.setup.is_expired(self.now) {
            return self.finish_close(id, None);
        }
        self.sending.deferred_control.push_back(DeferredControl::Close(id.flow));
    }

    pub(crate) fn on_close(&mut self, source: Address, close: &Close) {
        let id = FlowId { flow: close.flow, nonce: close.nonce };
        self.on_peer_half_ended(source, id, Some((close.own, close.own_nonce)), Some(&close.acks));
        self.send_closed(source, id, (close.own, close.own_nonce));
    }

    /// Answer a peer that named a flow that ended or never existed. `id` is this side's half.
    pub(crate) fn send_closed(&mut self, to: Address, id: FlowId, (flow, nonce): (Flow, u16)) {
        let notice = self
            .discovery
            .unknown_flows
            .notice_to_peer(id.flow, to, (flow, nonce))
            .filter(|said| said.own == Some((id.flow, id.nonce)));
        let closed = notice.unwrap_or(Closed { flow, nonce, own: Some((id.flow, id.nonce)), acks: None });
        self.sending.control.push(to, Control::Closed(closed));
    }

    pub(crate) fn on_closed(&mut self, source: Address, closed: &Closed) {
        let id = FlowId { flow: closed.flow, nonce: closed.nonce };
        self.on_peer_half_ended(source, id, closed.own, closed.acks.as_ref());
    }

    /// The peer's half of this flow ended. A peer that does not name its half never had one: it asked for the flow, and
    /// gave up waiting for the answer.
    fn on_peer_half_ended(&mut self, source: Address, id: FlowId, half: Option<(Flow, u16)>, acks: Option<&FinalAcks>) {
        let Some(record) = self.flows.get(id) else { return };
        let route = record.route;
        if route.to != source || !half.map_or(!record.setup.is_ours, |half| half == (route.flow, route.nonce)) {
            return;
        }
        match record.phase {
            // A running node remembers its flows. A Closed without acknowledgements comes from a new run.
            Phase::Open if acks.is_none() => self.end_flow(id, ReturnReason::Restarted, None),
            Phase::Open => {
                let cause = acks.map_or(CloseCause::Closed, |acks| acks.cause);
                if cause == CloseCause::Name {
                    self.discovery.name_lost = Some((source, self.now));
                }
                self.end_flow(id, cause.into(), acks);
            }
            Phase::Closing => self.finish_close(id, acks),
            _ => (),
        }
    }

    /// The peer ended its half of a flow that was closed here, or the peer is gone.
    pub(crate) fn finish_close(&mut self, id: FlowId, acks: Option<&FinalAcks>) {
        let said = self.discovery.unknown_flows.closed_flow(id.flow, Some(id.nonce)).and_then(|said| said.closed.acks);
        let reason = said.map_or(CloseCause::Closed, |said| said.cause).into();
        let unhandled = self.return_all(id, reason, acks);
        if reason == ReturnReason::Tag
            && let Some(record) = self.flows.get(id)
        {
            // The program did not close this flow itself.
            let (node, endpoint) = (record.peer.node_name, record.peer.endpoint);
            self.outputs.events.push_back(Event::Ended(
                record.endpoint,
                id,
                FlowEnd { node, endpoint, reason, unhandled },
            ));
            return self.flows.remove_ended(id, reason);
        }
        self.flows.remove(id.flow);
    }
}

impl From<CloseCause> for ReturnReason {
    fn from(cause: CloseCause) -> Self {
        match cause {
            CloseCause::Closed => ReturnReason::Closed,
            CloseCause::Tag => ReturnReason::Tag,
            CloseCause::Name => ReturnReason::NameTaken,
        }
    }
}
