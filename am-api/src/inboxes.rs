//! What happened to conversations, until their endpoint is polled.

use std::collections::{BTreeMap, VecDeque};

use am_proto::{Ending, EndpointId, Event, FlowId, ReturnReason};
use am_wire::control::Name;

/// What happened to a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// One that we asked for is open, or will not be: [`Port::ready`](crate::Port::ready) says which.
    Settled,
    /// A peer connected to us.
    Accepted,
    /// It is over. One that we asked for can be asked why until it is
    /// [closed](crate::Port::close); one that the peer had asked for is forgotten.
    Ended(ReturnReason),
}

/// Events that wait for their endpoint to be polled. Only endpoints that listen have an inbox.
///
/// None is lost, and yet an endpoint that is not polled has a bounded number: what happened to a conversation that this side
/// closed is dropped, and so is, beyond [`MANY`], what came and went unseen. So there are at most two for each conversation.
#[derive(Debug, Default)]
pub(crate) struct Inboxes(BTreeMap<EndpointId, VecDeque<Letter>>);

/// What happened to which conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    pub(crate) change: FlowChange,
    pub(crate) flow: FlowId,
    /// The peer's node and endpoint, where the flow is forgotten and cannot be asked.
    pub(crate) names: Option<(Name, Name)>,
    pub(crate) unhandled: [u32; 2],
}

const MANY: usize = 1024;

impl Inboxes {
    pub(crate) fn listen(&mut self, endpoint: EndpointId) {
        self.0.entry(endpoint).or_insert_with(|| VecDeque::with_capacity(MANY));
    }

    pub(crate) fn remove(&mut self, endpoint: EndpointId) {
        self.0.remove(&endpoint);
    }

    pub(crate) fn put(&mut self, event: Event) {
        let (endpoint, flow, change, names, unhandled) = match event {
            Event::Settled(endpoint, flow) => (endpoint, flow, FlowChange::Settled, None, [0; 2]),
            Event::Accepted(endpoint, flow, names) => (endpoint, flow, FlowChange::Accepted, Some(names), [0; 2]),
            Event::Ended(endpoint, flow, Ending { node, endpoint: other, reason, unhandled }) => {
                (endpoint, flow, FlowChange::Ended(reason), Some((node, other)), unhandled)
            }
            Event::Contested => return,
        };
        let Some(inbox) = self.0.get_mut(&endpoint) else { return };
        if inbox.len() >= MANY && matches!(change, FlowChange::Ended(_)) {
            let is_its = |letter: &Letter| letter.flow == flow && letter.change == FlowChange::Accepted;
            if let Some(unseen) = inbox.iter().rposition(is_its) {
                inbox.remove(unseen);
                return;
            }
        }
        inbox.push_back(Letter { change, flow, names, unhandled });
    }

    /// This side has closed it. That the peer had asked for it is still news.
    pub(crate) fn closed(&mut self, endpoint: EndpointId, flow: FlowId) {
        if let Some(inbox) = self.0.get_mut(&endpoint) {
            inbox.retain(|letter| letter.flow != flow || letter.change == FlowChange::Accepted);
        }
    }

    /// Whether no endpoint has anything to hear of.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }

    pub(crate) fn take(&mut self, endpoint: EndpointId) -> Option<Letter> {
        self.0.get_mut(&endpoint)?.pop_front()
    }
}
