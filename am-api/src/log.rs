//! The events for `tracing`, which are the same over all transports. A program needs a subscriber for them, and no handler.
//!
//! | message | level | when | fields besides `node` |
//! | --- | --- | --- | --- |
//! | `connected` | info | a connection opened | `endpoint`, `peer_node`, `peer_endpoint`, `by_peer`: whether the peer asked for it |
//! | `refused` | warn | a peer refused a connection | `endpoint`, `peer_node`, `peer_endpoint`, `reason` |
//! | `unreachable` | warn | a peer did not answer a connect, or became unreachable | as above |
//! | `ended` | info | an open connection ended, and this side did not close it | as above; `unhandled_requests`, `unhandled_replies`: see [`ConnectionEvent`](crate::ConnectionEvent::unhandled) |
//! | `returned` | warn | messages returned: one event for all of a connection that returned together | as above; `requests`, `replies`, and how many of both are `unknown`: they may have been handled |
//! | `abandoned` | warn | an endpoint or a node was dropped, and messages that it had sent have perhaps not arrived: of an endpoint those longer than a frame | `endpoint`, none of a node; `messages` |
//! | `joined`, `left` | info | a member joined, or left; only if an endpoint [watches](crate::Endpoint::on_members) | `name`, `address`; `reason` |
//! | `changed` | info | the address, longest frame or framing of a member changed | `name`, `address`, `framing`, `max_frame` |
//! | `trace_ended` | warn | the file of [`node:trace=FILE`](crate::transports) cannot be written, so no further frames are traced | `file`, `error`; no `node` |
//! | `contested` | warn | two live nodes have one name (a name conflict); once a minute while it lasts | `name`, `first`, `second`: their addresses |
//!
//! All have the target `am_api`. Delivered messages cause no event, so logging adds no cost to them.
//!
//! ```
//! // In a program: tracing_subscriber::fmt().init();
//! # let log = std::sync::Arc::new(std::fs::File::create("/dev/null").unwrap());
//! # let subscriber = tracing_subscriber::fmt().with_writer(log).finish();
//! # tracing::subscriber::with_default(subscriber, || {
//! let [alpha, beta] = ["alpha", "beta"].map(|name| am_api::Node::open(name, "sim:1").unwrap());
//! let (mut asks, mut adds) = (alpha.endpoint::<()>("asks").unwrap(), beta.endpoint::<()>("adds").unwrap());
//! let to = asks.connect("beta", "adds").unwrap();
//! while !asks.is_open(to) {
//!     asks.poll(&mut ());
//!     adds.poll(&mut ());
//! }
//! // INFO am_api: connected node=alpha endpoint=asks peer_node=beta peer_endpoint=adds by_peer=false
//! # });
//! ```

use std::collections::HashMap;
use std::mem;
use std::time::Duration;

use am_proto::{
    Core, EndpointId, Event, Fate, FlowEnd, FlowId, FlowState, Member, MemberChange, NameConflict, Peer, ReturnReason,
    Returned, Time,
};
use am_ring::Frame;
use am_wire::Class;
use am_wire::control::Name;
use tracing::field::display;
use tracing::{info, warn};

use crate::errors::refusal;

const TARGET: &str = "am_api";

/// The time between two events of one name conflict.
const PAUSE: Duration = Duration::from_secs(60);

type Names = (Name, Name);

/// The events of a turn, to be reported at its end.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: Vec<Event>,
    /// The peers of forgotten connections whose messages may still return.
    names: HashMap<FlowId, Names>,
    /// Counts of returned messages. Each batch becomes one event.
    returned: Vec<Batch>,
    /// The name conflict that was reported last, and when.
    conflict: Option<(NameConflict, Time)>,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    endpoint: EndpointId,
    flow: FlowId,
    reason: ReturnReason,
    counts: [u32; 2],
    unknown: u32,
}

impl Log {
    #[inline]
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Report the events of a turn.
    #[cold]
    pub(crate) fn report(&mut self, core: &mut Core<Frame>) {
        self.names.retain(|flow, _| core.has_returned() || core.peer_names(*flow).is_some());
        for event in mem::take(&mut self.events) {
            let (endpoint, flow) = match event {
                Event::SetupFinished(endpoint, flow) | Event::Accepted(endpoint, flow, _) => (endpoint, flow),
                Event::Ended(endpoint, flow, end) => {
                    self.names.insert(flow, (end.node, end.endpoint));
                    (endpoint, flow)
                }
                Event::NameConflict => {
                    self.report_conflict(core);
                    continue;
                }
                Event::Member(member, change) => {
                    report_member(core, &member, change);
                    continue;
                }
            };
            let Some(names) = core.peer_names(flow).or_else(|| self.names.get(&flow).copied()) else { continue };
            report_change(core, endpoint, names, event);
        }
        // Last, because the event of a connection's end has stored the peer's names above.
        self.report_returned(core);
    }

    fn report_conflict(&mut self, core: &Core<Frame>) {
        let Some(conflict) = core.name_conflict() else { return };
        if self.conflict.is_some_and(|(last, at)| last == conflict && core.now() - at < PAUSE) {
            return;
        }
        self.conflict = Some((conflict, core.now()));
        let NameConflict { name, addresses: [first, second] } = conflict;
        warn!(target: TARGET, node = %core.config().name, %name, %first, %second, "contested");
    }

    /// This side closes a connection. Store the peer's names, because messages in flight may return later.
    pub(crate) fn note_closed(&mut self, flow: FlowId, core: &Core<Frame>) {
        let names = core.peer_names(flow);
        self.names.extend(names.map(|names| (flow, names)));
    }

    /// A message returned to its endpoint.
    #[cold]
    pub(crate) fn note_returned(&mut self, endpoint: EndpointId, back: &Returned<Frame>) {
        let &Returned { reason, fate, ref message } = back;
        let is_more = |batch: &Batch| (batch.endpoint, batch.flow, batch.reason) == (endpoint, message.flow, reason);
        let all = &mut self.returned;
        if !all.last().is_some_and(is_more) {
            all.push(Batch { endpoint, flow: message.flow, reason, counts: [0; 2], unknown: 0 });
        }
        let Some(batch) = all.last_mut() else { return };
        batch.counts[usize::from(message.class == Class::Reply)] += 1;
        batch.unknown += u32::from(fate == Fate::Unknown);
    }

    /// Report the batches of endpoints at which no more returned messages wait.
    fn report_returned(&mut self, core: &mut Core<Frame>) {
        self.returned.retain(|&Batch { endpoint, flow, reason, counts: [requests, replies], unknown }| {
            if core.has_returned_to(endpoint) {
                return true;
            }
            let names = core.peer_names(flow).or_else(|| self.names.get(&flow).copied());
            let (peer_node, peer_endpoint) = names.map(|(node, endpoint)| (display(node), display(endpoint))).unzip();
            let (node, endpoint) = (core.config().name, core.endpoint_name(endpoint).map(display));
            warn!(
                target: TARGET, %node, endpoint, peer_node, peer_endpoint, %reason, requests, replies, unknown, "returned"
            );
            false
        });
    }
}

/// An endpoint was dropped, or the node, with this many messages of which the peers may not have all.
pub(crate) fn report_abandoned(core: &mut Core<Frame>, endpoint: Option<EndpointId>, messages: usize) {
    if messages > 0 {
        let endpoint = endpoint.and_then(|endpoint| core.endpoint_name(endpoint)).map(display);
        warn!(target: TARGET, node = %core.config().name, endpoint, messages, "abandoned");
    }
}

#[cold]
fn report_member(core: &Core<Frame>, member: &Member, change: MemberChange) {
    let (node, Peer { name, address, .. }) = (core.config().name, member.peer);
    let framing = member.framing.map(display);
    match change {
        MemberChange::Joined => info!(target: TARGET, %node, %name, %address, "joined"),
        MemberChange::Changed => {
            info!(target: TARGET, %node, %name, %address, framing, max_frame = member.max_frame, "changed");
        }
        MemberChange::Left(reason) => info!(target: TARGET, %node, %name, %address, %reason, "left"),
    }
}

#[cold]
fn report_change(core: &mut Core<Frame>, endpoint: EndpointId, (peer_node, peer_endpoint): Names, event: Event) {
    // The endpoint may be closed already.
    let (node, endpoint) = (core.config().name, core.endpoint_name(endpoint).map(display));
    let unreachable = |reason: ReturnReason| {
        warn!(target: TARGET, %node, endpoint, %peer_node, %peer_endpoint, %reason, "unreachable");
    };
    let connected = |by_peer: bool| {
        info!(target: TARGET, %node, endpoint, %peer_node, %peer_endpoint, by_peer, "connected");
    };
    match event {
        Event::Accepted(..) => connected(true),
        Event::SetupFinished(_, flow) => match core.state(flow) {
            FlowState::Open { .. } => connected(false),
            FlowState::Refused(why) => {
                let reason = refusal(why);
                warn!(target: TARGET, %node, endpoint, %peer_node, %peer_endpoint, reason, "refused");
            }
            FlowState::Ended(reason @ ReturnReason::Unreachable) => unreachable(reason),
            // The connection opened, and has ended since. Its end is another event, unless this side has closed it.
            _ => (),
        },
        Event::Ended(_, _, FlowEnd { reason, unhandled: [unhandled_requests, unhandled_replies], .. }) => {
            if reason == ReturnReason::Unreachable {
                unreachable(reason);
            }
            info!(
                target: TARGET, %node, endpoint, %peer_node, %peer_endpoint, %reason, unhandled_requests,
                unhandled_replies, "ended"
            );
        }
        Event::NameConflict | Event::Member(..) => (),
    }
}
