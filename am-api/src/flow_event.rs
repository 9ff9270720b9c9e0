//! Conversations come and go: what an endpoint may want to know of it.

use std::collections::{BTreeMap, VecDeque};

use proto::{EndpointId, Event, FlowId};

use crate::{Port, Remote};

/// What happened to a conversation; [`Port::ready`] says how it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// One that we asked for is open, or will not be.
    Settled,
    /// A peer connected to us.
    Accepted,
    /// It is over.
    Ended,
}

/// See [`crate::Endpoint::on_flow`].
#[derive(Clone, Copy)]
pub struct FlowEvent<'a> {
    /// What happened.
    pub change: FlowChange,
    /// To the conversation with whom.
    pub remote: Remote,
    /// The endpoint, as far as handlers may use it.
    pub port: &'a Port,
}

/// Events that wait for their endpoint to be polled. Only endpoints that
/// listen have an inbox; one that is not polled loses the oldest.
#[derive(Debug, Default)]
pub(crate) struct Inboxes(BTreeMap<EndpointId, VecDeque<(FlowChange, FlowId)>>);

const MOST: usize = 1024;

impl Inboxes {
    pub(crate) fn listen(&mut self, endpoint: EndpointId) {
        self.0.entry(endpoint).or_insert_with(|| VecDeque::with_capacity(MOST));
    }

    pub(crate) fn remove(&mut self, endpoint: EndpointId) {
        self.0.remove(&endpoint);
    }

    pub(crate) fn put(&mut self, event: Event) {
        let (endpoint, change, flow) = match event {
            Event::Settled(endpoint, flow) => (endpoint, FlowChange::Settled, flow),
            Event::Accepted(endpoint, flow) => (endpoint, FlowChange::Accepted, flow),
            Event::Ended(endpoint, flow) => (endpoint, FlowChange::Ended, flow),
            Event::Steer(..) => return,
        };
        let Some(inbox) = self.0.get_mut(&endpoint) else { return };
        if inbox.len() == MOST {
            inbox.pop_front();
        }
        inbox.push_back((change, flow));
    }

    pub(crate) fn take(&mut self, endpoint: EndpointId) -> Option<(FlowChange, FlowId)> {
        self.0.get_mut(&endpoint)?.pop_front()
    }
}
