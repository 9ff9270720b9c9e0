//! Conversations come and go: what an endpoint may want to know of it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use proto::{Ending, EndpointId, Event, FlowId, ReturnReason};
use wire::control::Name;

use crate::{Port, Remote};

/// What happened to a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// One that we asked for is open, or will not be: [`Port::ready`] says which.
    Settled,
    /// A peer connected to us.
    Accepted,
    /// It is over. One that we asked for can be asked why until it is
    /// [closed](Port::close); one that the peer had asked for is forgotten.
    Ended(ReturnReason),
}

/// See [`crate::Endpoint::on_flow`].
#[derive(Clone, Copy, Debug)]
pub struct FlowEvent<'a> {
    /// What happened.
    pub change: FlowChange,
    /// To the conversation with whom.
    pub remote: Remote,
    /// The names of the node and the endpoint at the other side.
    pub names: (Name, Name),
    /// When it is over: requests, and replies, of this endpoint that had been acknowledged, and that the other side dropped
    /// without a handler because it left. They are the last ones of those that did not come back.
    pub unhandled: [u32; 2],
    /// The endpoint, as far as handlers may use it.
    pub port: &'a Port,
}

impl fmt::Display for FlowEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, endpoint) = &self.names;
        match (self.change, self.port.ready(self.remote)) {
            (FlowChange::Accepted, _) => write!(f, "{node}/{endpoint}: connected to this endpoint"),
            (FlowChange::Ended(reason), _) => write!(f, "{node}/{endpoint}: over: {reason}"),
            (FlowChange::Settled, Ok(())) => write!(f, "{node}/{endpoint}: open"),
            (FlowChange::Settled, Err(why)) => write!(f, "{node}/{endpoint}: not open: {why}"),
        }
    }
}

/// Events that wait for their endpoint to be polled. Only endpoints that
/// listen have an inbox; one that is not polled loses the oldest.
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

const MOST: usize = 1024;

impl Inboxes {
    pub(crate) fn listen(&mut self, endpoint: EndpointId) {
        self.0.entry(endpoint).or_insert_with(|| VecDeque::with_capacity(MOST));
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
            Event::Steer(..) | Event::WayBack(..) | Event::Promised | Event::Full(_) | Event::Silent(_) => return,
        };
        let Some(inbox) = self.0.get_mut(&endpoint) else { return };
        if inbox.len() == MOST {
            inbox.pop_front();
        }
        inbox.push_back(Letter { change, flow, names, unhandled });
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
