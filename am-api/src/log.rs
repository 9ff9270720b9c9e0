//! What is told to `tracing`, whatever the transport is: a program needs a subscriber, and no handler.
//!
//! | message | level | when | fields besides `node` |
//! | --- | --- | --- | --- |
//! | `connected` | info | a connection is open | `endpoint`, `peer_node`, `peer_endpoint`, `by_peer`: the peer asked for it |
//! | `refused` | warn | a peer refused one | `endpoint`, `peer_node`, `peer_endpoint`, `reason` |
//! | `unreachable` | warn | a peer did not answer a connect, or was given up | as above |
//! | `ended` | info | one that was open ended, not by this side | as above; `unhandled_requests`, `unhandled_replies`: see [`ConnectionEvent`](crate::ConnectionEvent::unhandled) |
//! | `returned` | warn | messages came back: one event for all of a connection that came back together | as above; `requests`, `replies`, and how many of both are `unknown`: they may have been handled |
//! | `joined`, `left` | info | a member is there, or is gone; only where an endpoint [watches](crate::Endpoint::on_members) | `name`, `address`; `reason` |
//! | `changed` | info | a member has another address, longest frame or framing | `name`, `address`, `framing`, `max_frame` |
//! | `contested` | warn | two nodes have one name; once a minute as long as it lasts | `name`, `first`, `second`: their addresses |
//!
//! All have the target `am_api`. No message that is delivered is told of, and none costs anything for this.
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

/// Between two events of one contest.
const PAUSE: Duration = Duration::from_secs(60);

type Names = (Name, Name);

/// What is to be told.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: Vec<Event>,
    /// Peers of connections that are forgotten, of which messages may still come back.
    names: HashMap<FlowId, Names>,
    /// Messages that came back, by those that belong together.
    returned: Vec<Batch>,
    contest: Option<(NameConflict, Time)>,
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

    /// Part of a turn that brought events, or in which messages came back.
    #[cold]
    pub(crate) fn tell(&mut self, core: &mut Core<Frame>) {
        self.names.retain(|flow, _| core.has_returned() || core.peer_names(*flow).is_some());
        for event in mem::take(&mut self.events) {
            let (endpoint, flow) = match event {
                Event::SetupFinished(endpoint, flow) | Event::Accepted(endpoint, flow, _) => (endpoint, flow),
                Event::Ended(endpoint, flow, end) => {
                    self.names.insert(flow, (end.node, end.endpoint));
                    (endpoint, flow)
                }
                Event::NameConflict => {
                    self.tell_contest(core);
                    continue;
                }
                Event::Member(member, change) => {
                    tell_member(core, &member, change);
                    continue;
                }
            };
            let Some(names) = core.peer_names(flow).or_else(|| self.names.get(&flow).copied()) else { continue };
            tell_change(core, endpoint, names, event);
        }
        // Behind the end of their connection, which says whose they are.
        self.tell_returned(core);
    }

    fn tell_contest(&mut self, core: &Core<Frame>) {
        let Some(contest) = core.name_conflict() else { return };
        if self.contest.is_some_and(|(told, at)| told == contest && core.now() - at < PAUSE) {
            return;
        }
        self.contest = Some((contest, core.now()));
        let NameConflict { name, addresses: [first, second] } = contest;
        warn!(target: TARGET, node = %core.config().name, %name, %first, %second, "contested");
    }

    /// This side closes a connection: what was on its way comes back later.
    pub(crate) fn note_closed(&mut self, flow: FlowId, core: &Core<Frame>) {
        let names = core.peer_names(flow);
        self.names.extend(names.map(|names| (flow, names)));
    }

    /// A message came back to its endpoint.
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

    /// Where no more of them wait.
    fn tell_returned(&mut self, core: &mut Core<Frame>) {
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

#[cold]
fn tell_member(core: &Core<Frame>, member: &Member, change: MemberChange) {
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
fn tell_change(core: &mut Core<Frame>, endpoint: EndpointId, (peer_node, peer_endpoint): Names, event: Event) {
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
            // It was open, and is closed: its end is told by itself, unless this side has closed it.
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
