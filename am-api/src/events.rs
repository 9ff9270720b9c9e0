//! What happens to connections, queued until their endpoint is polled.

use std::collections::{BTreeMap, VecDeque};

use am_proto::{Core, EndpointId, Event, FlowEnd, FlowId, ReturnReason};
use am_ring::Frame;

use crate::{Connection, EndpointName, NotOpen};

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionChange {
    /// A connection that this endpoint asked for is open.
    Opened,
    /// A connection that this endpoint asked for will not open.
    Failed(NotOpen),
    /// A peer connected to this endpoint.
    Accepted,
    /// An open connection ended, and not by a [`close`](crate::Endpoint::close) of this side.
    Ended(ReturnReason),
}

/// Events that wait for their endpoint to be polled. Only endpoints that set a handler have a queue.
///
/// No event is lost, and yet an endpoint that is not polled has a bounded number: events of a connection that this side
/// closed are dropped, and beyond [`MAX_QUEUED`] so are connections that came and went unseen. That leaves at most two
/// events for each connection.
#[derive(Debug, Default)]
pub(crate) struct EventQueues {
    queues: BTreeMap<EndpointId, VecDeque<Event>>,
    /// Events in all of them: each turn looks at this.
    count: usize,
}

/// A change, and where it names them the peer and the unhandled messages.
pub(crate) type Change = (ConnectionChange, EndpointName, [u32; 2]);

const MAX_QUEUED: usize = 1024;

/// Whether a connection opened, failed or ended, other than by being accepted.
fn is_change_of(event: &Event, flow: FlowId) -> bool {
    matches!(event, Event::SetupFinished(_, of) | Event::Ended(_, of, _) if *of == flow)
}

impl EventQueues {
    pub(crate) fn add(&mut self, endpoint: EndpointId) {
        self.queues.entry(endpoint).or_insert_with(|| VecDeque::with_capacity(MAX_QUEUED));
    }

    pub(crate) fn remove(&mut self, endpoint: EndpointId) {
        self.count -= self.queues.remove(&endpoint).map_or(0, |queue| queue.len());
    }

    pub(crate) fn push(&mut self, event: Event) {
        let (Event::SetupFinished(endpoint, flow)
        | Event::Accepted(endpoint, flow, _)
        | Event::Ended(endpoint, flow, _)) = event
        else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&endpoint) else { return };
        if queue.len() >= MAX_QUEUED && matches!(event, Event::Ended(..)) {
            let is_accept = |queued: &Event| matches!(queued, Event::Accepted(_, of, _) if *of == flow);
            if let Some(unseen) = queue.iter().rposition(is_accept) {
                queue.remove(unseen);
                self.count -= 1;
                return;
            }
        }
        queue.push_back(event);
        self.count += 1;
    }

    /// This side closed the connection. That a peer had asked for it is still news.
    pub(crate) fn closed(&mut self, endpoint: EndpointId, flow: FlowId) {
        if let Some(queue) = self.queues.get_mut(&endpoint) {
            let before = queue.len();
            queue.retain(|queued| !is_change_of(queued, flow));
            self.count -= before - queue.len();
        }
    }

    /// Whether no endpoint has an event.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this endpoint has events.
    pub(crate) fn has(&self, endpoint: EndpointId) -> bool {
        self.count > 0 && self.queues.get(&endpoint).is_some_and(|queue| !queue.is_empty())
    }

    /// The next event of this endpoint.
    pub(crate) fn pop(&mut self, endpoint: EndpointId, core: &Core<Frame>) -> Option<(Connection, Change)> {
        let queue = self.queues.get_mut(&endpoint)?;
        while let Some(event) = queue.pop_front() {
            self.count -= 1;
            let (flow, change) = match event {
                Event::Accepted(_, flow, names) => {
                    (flow, (ConnectionChange::Accepted, EndpointName::of(names), [0; 2]))
                }
                Event::Ended(_, flow, FlowEnd { node, endpoint, reason, unhandled }) => {
                    (flow, (ConnectionChange::Ended(reason), EndpointName { node, endpoint }, unhandled))
                }
                Event::SetupFinished(_, flow) => {
                    // A connection that opened and ended since has another event.
                    let has_ended = queue.iter().any(|queued| is_change_of(queued, flow));
                    let change = match NotOpen::of(core.state(flow)) {
                        Err(why) if !has_ended => ConnectionChange::Failed(why),
                        _ => ConnectionChange::Opened,
                    };
                    // This side closed it since, if the core does not know it.
                    let Some(names) = core.peer_names(flow) else { continue };
                    (flow, (change, EndpointName::of(names), [0; 2]))
                }
                Event::NameConflict | Event::Member(..) => continue,
            };
            return Some((Connection(flow), change));
        }
        None
    }
}
