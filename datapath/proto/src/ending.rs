//! Flows and endpoints end: what was not acknowledged returns to its sender
//! (AM-II's return-to-sender error model, Chun et al., "Error handling").

use wire::control::{Close, Control, Name};
use wire::{Address, Buffer, Class};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Delivery, Ending, Event, ReturnReason, Returned};
use crate::slots::{NONE, Slot};
use crate::{EndpointId, FlowId};

/// Why an endpoint could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The name is in use.
    #[error("this node has an endpoint named `{0}` already; choose another name or close the first")]
    Taken(Name),
    /// 65,536 of them.
    #[error("this node has all the endpoints it can have; close some that are no longer used")]
    TooMany,
}

impl<B: Buffer> Core<B> {
    /// From above: a new endpoint. Flows to it must name its tag.
    ///
    /// # Errors
    /// The name is taken, or there are too many.
    pub fn endpoint(&mut self, name: Name, tag: u64) -> Result<EndpointId, EndpointError> {
        if self.endpoints.by_name(name).is_some() {
            return Err(EndpointError::Taken(name));
        }
        let window = self.config.window as usize;
        self.endpoints.add(name, tag, window).ok_or(EndpointError::TooMany)
    }

    /// From above: another tag. Flows that peers made with the old one end.
    pub fn set_tag(&mut self, endpoint: EndpointId, tag: u64) {
        if let Some(found) = self.endpoints.get(endpoint) {
            found.tag = tag;
            self.close_those(|record| record.endpoint == endpoint && !record.setup.ours && record.setup.tag != tag);
        }
    }

    /// From above: close an endpoint with all its flows. Messages that wait to
    /// be extracted are dropped.
    pub fn close_endpoint(&mut self, endpoint: EndpointId) {
        self.close_those(|record| record.endpoint == endpoint);
        self.endpoints.remove(endpoint);
    }

    /// From above: close everything; peers are told with the next outputs.
    pub fn shut_down(&mut self) {
        self.close_those(|_| true);
    }

    fn close_those(&mut self, which: impl Fn(&FlowRecord) -> bool) {
        let ids: Vec<FlowId> = self.flows.iter().filter(|record| which(record)).map(|record| record.id).collect();
        for id in ids {
            self.close(id);
        }
    }

    /// From above: close a flow and forget it; the peer is told. What was not
    /// acknowledged comes back.
    pub fn close(&mut self, id: FlowId) {
        self.say_farewell(id);
        self.retire(id, ReturnReason::Closed);
        self.flows.remove(id.flow);
    }

    /// The other side of an open flow is told that it is over.
    pub(crate) fn say_farewell(&mut self, id: FlowId) {
        let Some(record) = self.flows.get(id) else { return };
        if record.phase == Phase::Open {
            let (to, close) = (record.route.to, Close { flow: record.route.flow, nonce: record.route.nonce });
            self.control.push(to, Control::Close(close));
            self.strays.remember(id, to, close);
        }
    }

    pub(crate) fn on_close(&mut self, source: Address, close: &Close) {
        let Some(record) = self.flows.by_flow(close.flow) else { return };
        if record.id.nonce == close.nonce && record.route.to == source && record.phase == Phase::Open {
            let id = record.id;
            self.end(id, ReturnReason::Closed);
        }
    }

    /// A flow is over, not by our own doing. One that the peer had asked for is
    /// forgotten; one of ours stays, to be asked why, until it is closed.
    pub(crate) fn end(&mut self, id: FlowId, reason: ReturnReason) {
        let Some(record) = self.flows.get(id) else { return };
        let (endpoint, ours) = (record.endpoint, record.setup.ours);
        let event = match record.phase {
            Phase::Dead(_) => return,
            Phase::Asking => Event::Settled(endpoint, id),
            _ => {
                let (node, peer) = (record.remote.node_name, record.remote.endpoint);
                Event::Ended(endpoint, id, Ending { node, endpoint: peer, reason })
            }
        };
        // It may only have been out of reach, and the new run may be the one that
        // accepted: neither should keep its half for nobody.
        if reason != ReturnReason::Closed {
            self.say_farewell(id);
        }
        self.retire(id, reason);
        self.events.push_back(event);
        if !ours {
            self.flows.remove(id.flow);
        }
    }

    /// Take a flow out of service: its credits, its messages, its steering.
    fn retire(&mut self, id: FlowId, reason: ReturnReason) {
        self.settle(self.now);
        let Some(record) = self.flows.get_mut(id) else { return };
        if matches!(record.phase, Phase::Dead(_)) {
            return;
        }
        record.phase = Phase::Dead(reason);
        record.receive.0.iter_mut().for_each(|queue| self.budget.give_back(queue.retire()));
        record.order.take().into_iter().for_each(|order| self.gaps.give_back_order(order));
        if record.is_first {
            self.newest = None;
            self.budget.go();
        }
        self.endpoints.let_all_go(record);
        for class in Class::ALL {
            self.return_all(id, class, reason);
        }
        self.events.push_back(Event::Steer(id.flow, false));
    }

    /// What was on its way goes back to the endpoint that sent it.
    fn return_all(&mut self, id: FlowId, class: Class, reason: ReturnReason) {
        let Some(record) = self.flows.get_mut(id) else { return };
        let (endpoint, body_at) = (record.endpoint, record.route.framing.body_at());
        let mut link = record.send[class].drain();
        while link != NONE {
            let slot = &mut self.slots[link];
            let next = slot.next;
            if let Some(message) = take_message(slot, id, body_at) {
                self.counters.returned += 1;
                self.endpoints.push_returned(endpoint, Returned { reason, message });
            }
            self.slots.put(link);
            link = next;
        }
    }

    /// Getter: whether messages that came back wait at any endpoint.
    #[inline]
    pub fn has_returned(&self) -> bool {
        self.endpoints.has_returned()
    }

    /// Getter: whether messages that came back wait at this one.
    pub fn has_returned_to(&mut self, endpoint: EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.has_returned())
    }

    /// Output: the next message that came back to this endpoint.
    pub fn poll_returned(&mut self, endpoint: EndpointId) -> Option<Returned<B>> {
        self.endpoints.pop_returned(endpoint)
    }
}

/// The message in a slot as it was sent; `None` when the receiver has it.
fn take_message<B: Buffer>(slot: &mut Slot<B>, flow: FlowId, body_at: usize) -> Option<Delivery<B>> {
    let frame = slot.frame.take()?;
    let &mut Slot { class, kind, handler, words, body, .. } = slot;
    Some(Delivery { flow, class, kind, handler, words, body_at: body_at as u16, body, frame })
}
