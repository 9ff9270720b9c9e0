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
    queues: BTreeMap<EndpointId, VecDeque<QueuedEvent>>,
    /// Events in all of them: each turn looks at this.
    count: usize,
}

/// The core's event, for one endpoint.
#[derive(Clone, Copy, Debug)]
struct QueuedEvent {
    flow: FlowId,
    change: QueuedChange,
}

#[derive(Clone, Copy, Debug)]
enum QueuedChange {
    /// A connection that was asked for opened or failed.
    Settled,
    Accepted(EndpointName),
    Ended(FlowEnd),
}

/// A change, and where it names them the peer and the unhandled messages.
pub(crate) type Change = (ConnectionChange, EndpointName, [u32; 2]);

const MAX_QUEUED: usize = 1024;

impl EventQueues {
    pub(crate) fn add(&mut self, endpoint: EndpointId) {
        self.queues.entry(endpoint).or_insert_with(|| VecDeque::with_capacity(MAX_QUEUED));
    }

    pub(crate) fn remove(&mut self, endpoint: EndpointId) {
        self.count -= self.queues.remove(&endpoint).map_or(0, |queue| queue.len());
    }

    pub(crate) fn push(&mut self, event: &Event) {
        let (endpoint, flow, change) = match *event {
            Event::SetupFinished(endpoint, flow) => (endpoint, flow, QueuedChange::Settled),
            Event::Accepted(endpoint, flow, names) => (endpoint, flow, QueuedChange::Accepted(EndpointName::of(names))),
            Event::Ended(endpoint, flow, ending) => (endpoint, flow, QueuedChange::Ended(ending)),
            Event::NameConflict => return,
        };
        let Some(queue) = self.queues.get_mut(&endpoint) else { return };
        if queue.len() >= MAX_QUEUED && matches!(change, QueuedChange::Ended(_)) {
            let is_accept =
                |queued: &QueuedEvent| queued.flow == flow && matches!(queued.change, QueuedChange::Accepted(_));
            if let Some(unseen) = queue.iter().rposition(is_accept) {
                queue.remove(unseen);
                self.count -= 1;
                return;
            }
        }
        queue.push_back(QueuedEvent { flow, change });
        self.count += 1;
    }

    /// This side closed the connection. That a peer had asked for it is still news.
    pub(crate) fn closed(&mut self, endpoint: EndpointId, flow: FlowId) {
        if let Some(queue) = self.queues.get_mut(&endpoint) {
            let before = queue.len();
            queue.retain(|queued| queued.flow != flow || matches!(queued.change, QueuedChange::Accepted(_)));
            self.count -= before - queue.len();
        }
    }

    /// Whether no endpoint has an event.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next event of this endpoint.
    pub(crate) fn pop(&mut self, endpoint: EndpointId, core: &Core<Frame>) -> Option<(Connection, Change)> {
        let queue = self.queues.get_mut(&endpoint)?;
        while let Some(QueuedEvent { flow, change }) = queue.pop_front() {
            self.count -= 1;
            let change = match change {
                QueuedChange::Accepted(peer) => (ConnectionChange::Accepted, peer, [0; 2]),
                QueuedChange::Ended(FlowEnd { node, endpoint, reason, unhandled }) => {
                    (ConnectionChange::Ended(reason), EndpointName { node, endpoint }, unhandled)
                }
                QueuedChange::Settled => {
                    // A connection that opened and ended since has another event.
                    let has_ended = queue.iter().any(|queued| queued.flow == flow);
                    let change = match NotOpen::of(core.state(flow)) {
                        Err(why) if !has_ended => ConnectionChange::Failed(why),
                        _ => ConnectionChange::Opened,
                    };
                    // This side closed it since, if the core does not know it.
                    let Some(names) = core.peer_names(flow) else { continue };
                    (change, EndpointName::of(names), [0; 2])
                }
            };
            return Some((Connection(flow), change));
        }
        None
    }
}
