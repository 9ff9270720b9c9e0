//! Idle flows. When an open flow is at rest, and has received nothing for half of a keepalive round, its record is
//! released. An [`IdleFlow`] keeps what the next message needs: sequence numbers, credits, the route to the peer. The
//! next frame or call restores the record. So a node's memory, and the time of each walk over its records, depend on the
//! flows that are in use and not on those that are open.
//!
//! ```text
//!             at rest for a round                        a keepalive or its answer
//!   active ───────────────────────▶ idle ◀───────────┐
//!      ▲      any other frame, call   │ └────────────┘
//!      └──────────────────────────────┘
//! ```
//!
//! Pushed by: the keepalive round, a limited number at a time. Popped by: a frame or a call that needs the record. Bounded
//! by: the flow ids. The name of a node is stored once for all its idle flows.

use std::collections::BTreeMap;
use std::mem;

use am_wire::control::{Keepalive, Name};
use am_wire::{Acks, Address, Class, Flow};

use crate::flow::{FlowPeer, FlowRecord, PerClass, Phase, Route, Setup, Silence};
use crate::peers::{PeerRun, QuietPeer};
use crate::receive_queue::IdleReceive;
use crate::rtt::Rtt;
use crate::send_queue::IdleSend;
use crate::senders::{SenderIndex, reserve_one};
use crate::time::Time;
use crate::{EndpointId, FlowId};

/// Index in [`IdleFlows::nodes`].
type NodeIndex = u16;

/// An open flow at rest.
#[derive(Debug)]
struct IdleFlow {
    /// When its last frame arrived. When it was set up, if none did.
    last_received: Time,
    tag: u64,
    attempt: u32,
    reply_offset: u32,
    route: Route,
    send: [IdleSend; 2],
    receive: [IdleReceive; 2],
    rtt: Rtt,
    id: FlowId,
    endpoint: EndpointId,
    node: NodeIndex,
    peer_endpoint: Name,
    is_ours: bool,
    is_ordered: bool,
    sender: SenderIndex,
    /// A frame arrived since the flow was set up.
    has_received: bool,
    /// The acknowledgement that answers a keepalive is queued.
    ack_queued: bool,
}

/// A run of a node with idle flows.
#[derive(Debug)]
struct IdleNode {
    run: PeerRun,
    name: Name,
    /// The number of the node's idle flows.
    count: u16,
    /// One of the node's idle flows. Outdated if that flow became active again: see [`IdleFlows::has_outdated`].
    flow: Flow,
    /// When the last frame arrived on one of the node's idle flows.
    last_received: Time,
}

#[derive(Debug, Default)]
pub(crate) struct IdleFlows {
    flows: BTreeMap<u16, Box<IdleFlow>>,
    /// The credits that their senders have, all together.
    credits: usize,
    nodes: Vec<IdleNode>,
    /// Indices of nodes without idle flows.
    vacant: Vec<NodeIndex>,
    /// Indices of nodes with idle flows, by their runs. A tree would take ten times the memory.
    by_run: Vec<NodeIndex>,
    /// The flow of a node may be outdated.
    has_outdated: bool,
}

impl IdleFlows {
    /// Make a flow idle if it is at rest. Returns whether its record may be released.
    pub(crate) fn insert(&mut self, record: &FlowRecord) -> bool {
        let Some(run) = record.peer.node.filter(|_| record.is_at_rest()) else { return false };
        let Some(node) = self.node_of(run, record.peer.node_name, record.id.flow) else { return false };
        let last_received = record.last_received();
        let found = &mut self.nodes[usize::from(node)];
        (found.count, found.flow) = (found.count + 1, record.id.flow);
        found.last_received = found.last_received.max(last_received);
        let idle = IdleFlow {
            last_received,
            tag: record.setup.tag,
            attempt: record.setup.id,
            reply_offset: record.reply_offset(),
            route: record.route,
            send: record.send.0.each_ref().map(IdleSend::of),
            receive: record.receive.0.each_ref().map(IdleReceive::of),
            rtt: record.rtt,
            id: record.id,
            endpoint: record.endpoint,
            node,
            peer_endpoint: record.peer.endpoint,
            is_ours: record.setup.is_ours,
            is_ordered: record.setup.is_ordered,
            sender: record.sender,
            has_received: record.silence.has_begun(),
            ack_queued: false,
        };
        self.credits += idle.credits();
        self.flows.insert(record.id.flow.id(), Box::new(idle));
        true
    }

    /// The record of an idle flow, which stays idle.
    pub(crate) fn look(&self, flow: Flow) -> Option<FlowRecord> {
        self.flows.get(&flow.id()).map(|idle| idle.record(&self.nodes[usize::from(idle.node)]))
    }

    /// The record of an idle flow, which becomes active.
    pub(crate) fn take(&mut self, flow: Flow) -> Option<FlowRecord> {
        let idle = self.flows.remove(&flow.id())?;
        self.credits -= idle.credits();
        let node = &mut self.nodes[usize::from(idle.node)];
        node.count -= 1;
        self.has_outdated |= node.flow == flow;
        let record = idle.record(node);
        if node.count == 0 {
            self.vacant.push(idle.node);
            let run = node.run;
            _ = self.find(&run).map(|at| self.by_run.remove(at));
        }
        Some(record)
    }

    /// The credits of the senders of all idle flows.
    pub(crate) fn credits(&self) -> usize {
        self.credits
    }

    /// The records of all idle flows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FlowRecord> {
        self.iter_of(|_| true)
    }

    /// The records of the idle flows of those peers for whose run `is_its` is true.
    pub(crate) fn iter_of(&self, is_its: impl Fn(&PeerRun) -> bool) -> impl Iterator<Item = FlowRecord> {
        let nodes = &self.nodes;
        let of = move |idle: &IdleFlow| &nodes[usize::from(idle.node)];
        self.flows.values().filter(move |idle| is_its(&of(idle).run)).map(move |idle| idle.record(of(idle)))
    }

    /// The idle flows on which nothing arrived since `since`, each with the run of its peer. They start at this id and wrap
    /// around.
    pub(crate) fn quiet_from(&self, first: u16, since: Time) -> impl Iterator<Item = (Flow, PeerRun)> {
        let around = self.flows.range(first..).chain(self.flows.range(..first));
        around
            .filter(move |(_, idle)| idle.last_received <= since)
            .map(|(_, idle)| (idle.id.flow, self.nodes[usize::from(idle.node)].run))
    }

    /// The index of a node with idle flows. `None` if another name is known for this run.
    fn node_of(&mut self, run: PeerRun, name: Name, flow: Flow) -> Option<NodeIndex> {
        let place = match self.find(&run) {
            Ok(found) => {
                let at = self.by_run[found];
                return (self.nodes[usize::from(at)].name == name).then_some(at);
            }
            Err(place) => place,
        };
        let node = IdleNode { run, name, count: 0, flow, last_received: Time::default() };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.nodes[usize::from(at)] = node;
                at
            }
            None => {
                let at = NodeIndex::try_from(self.nodes.len()).ok()?;
                reserve_one(&mut self.nodes);
                self.nodes.push(node);
                at
            }
        };
        self.by_run.insert(place, at);
        Some(at)
    }

    /// The place of a run in [`IdleFlows::by_run`], or where it would be.
    fn find(&self, run: &PeerRun) -> Result<usize, usize> {
        self.by_run.binary_search_by_key(run, |&at| self.nodes[usize::from(at)].run)
    }

    /// When the last frame of this run arrived on an idle flow.
    pub(crate) fn last_received(&self, run: &PeerRun) -> Option<Time> {
        self.find(run).ok().map(|at| self.nodes[usize::from(self.by_run[at])].last_received)
    }

    /// The peers on whose flows nothing arrived since `since`, by their runs. `active` are those with active flows.
    pub(crate) fn quiet_peers(
        &mut self,
        active: BTreeMap<PeerRun, QuietPeer>,
        since: Time,
    ) -> Vec<(PeerRun, QuietPeer)> {
        if mem::take(&mut self.has_outdated) {
            for idle in self.flows.values() {
                self.nodes[usize::from(idle.node)].flow = idle.id.flow;
            }
        }
        let idle = self.by_run.iter().map(|&at| &self.nodes[usize::from(at)]);
        let idle = idle.filter(|node| node.last_received <= since || active.contains_key(&node.run));
        let idle = idle.map(|&IdleNode { run, flow, last_received, .. }| {
            (run, QuietPeer { last_received, flow, rounds_asked: 0 })
        });
        let mut idle: Vec<_> = idle.collect();
        let mut peers: Vec<_> = active.into_iter().collect();
        peers.append(&mut idle);
        // Two sorted parts, which takes one pass.
        peers.sort_by_key(|&(run, _)| run);
        peers.dedup_by(|(run, idle), (known, active)| {
            let is_same = run == known;
            if is_same {
                active.last_received = active.last_received.max(idle.last_received);
            }
            is_same
        });
        peers.retain(|(_, peer)| peer.last_received <= since);
        peers
    }

    /// A keepalive of the peer about an idle flow. Returns whether to queue an acknowledgement. `None` if it is not about
    /// such a flow.
    pub(crate) fn on_keepalive(&mut self, source: Address, question: &Keepalive) -> Option<bool> {
        let idle = self.flows.get_mut(&question.flow.id())?;
        let Route { to, flow, nonce, .. } = idle.route;
        if (idle.id.nonce, to, flow, nonce) != (question.nonce, source, question.own, question.own_nonce) {
            return None;
        }
        Some(!mem::replace(&mut idle.ack_queued, true))
    }

    pub(crate) fn note_answered(&mut self, flow: Flow) {
        self.flows.get_mut(&flow.id()).into_iter().for_each(|idle| idle.ack_queued = false);
    }

    /// The acknowledgement of an idle flow, and its way.
    pub(crate) fn acks(&self, flow: Flow) -> Option<(Route, Acks)> {
        let idle = self.flows.get(&flow.id())?;
        Some((idle.route, Acks { classes: idle.receive.map(IdleReceive::ack) }))
    }

    /// Whether an acknowledgement on an idle flow changes nothing: it only shows that the peer is alive.
    pub(crate) fn is_known(&self, flow: Flow, acks: &Acks) -> bool {
        self.flows.get(&flow.id()).is_some_and(|idle| {
            idle.has_received && idle.send.iter().zip(&acks.classes).all(|(send, ack)| send.is_known(ack))
        })
    }

    /// A frame of the peer arrived on an idle flow, which stays idle.
    #[cold]
    pub(crate) fn note_received(&mut self, now: Time, flow: Flow) {
        if let Some(idle) = self.flows.get_mut(&flow.id()) {
            (idle.last_received, idle.has_received) = (now, true);
            self.nodes[usize::from(idle.node)].last_received = now;
        }
    }
}

impl IdleFlow {
    fn credits(&self) -> usize {
        self.receive.iter().map(|queue| usize::from(queue.granted)).sum()
    }

    fn record(&self, node: &IdleNode) -> FlowRecord {
        let setup = Setup {
            id: self.attempt,
            is_ours: self.is_ours,
            is_ordered: self.is_ordered,
            tag: self.tag,
            deadline: self.last_received,
            tries: 0,
            total_tries: 0,
        };
        let peer = FlowPeer { node_name: node.name, endpoint: self.peer_endpoint, node: Some(node.run) };
        let mut record = FlowRecord::restored(self.id, self.endpoint, peer, setup, (self.reply_offset, self.route));
        record.phase = Phase::Open;
        record.send = PerClass(self.send.map(|send| send.queue()));
        record.receive = PerClass(self.receive.map(|receive| receive.queue()));
        record.rtt = self.rtt;
        record.sender = self.sender;
        (record.ack_queued, record.ack_forced) = (self.ack_queued, self.ack_queued);
        record.silence = if self.has_received { Silence::from(self.last_received) } else { Silence::default() };
        record
    }
}

impl FlowRecord {
    /// Whether the flow is open, and has no message, acknowledgement or timer pending.
    pub(crate) fn is_at_rest(&self) -> bool {
        let has_timer = [&self.ack_timer, &self.resend_timer, &self.rejects.timer].into_iter().any(|it| it.is_armed());
        let is_noted = self.is_dirty || self.ack_queued || self.pending_piggyback.is_some();
        let has_sample = self.sample_sent_at != Time::NEVER;
        self.phase == Phase::Open
            && !(has_timer || is_noted || has_sample || self.ack_at != Time::NEVER || self.has_ack_to_send())
            && self.rtt.credit_requests == 0
            && Class::ALL.iter().all(|&class| self.send[class].is_empty() && self.receive[class].is_at_rest())
    }
}

#[cfg(test)]
mod tests {
    use am_wire::Framing;
    use am_wire::control::{Incarnation, NodeId};

    use super::*;
    use crate::output::FramingWhy;

    fn run(peer: u64) -> PeerRun {
        (NodeId(peer), Incarnation(1))
    }

    fn flow(id: u16) -> Flow {
        Flow::new(id).unwrap()
    }

    /// A flow at rest, on which the last frame arrived then.
    fn record(id: u16, peer: u64, received: u64) -> FlowRecord {
        let name = Name::new("peer").unwrap();
        let setup = Setup {
            id: 0,
            is_ours: true,
            is_ordered: true,
            tag: 0,
            deadline: Time(received),
            tries: 0,
            total_tries: 0,
        };
        let route = Route {
            to: Address([0; 6]),
            flow: flow(id),
            nonce: 0,
            framing: Framing::Plain,
            why: FramingWhy::Configured,
            max_body: 0,
            max_message: 0,
        };
        let peer = FlowPeer { node_name: name, endpoint: name, node: Some(run(peer)) };
        let id = FlowId { flow: flow(id), nonce: 0 };
        let mut record = FlowRecord::restored(id, EndpointId::NONE, peer, setup, (0, route));
        record.phase = Phase::Open;
        record
    }

    #[test]
    fn a_quiet_peer_has_a_flow_to_ask_about() {
        let mut idle = IdleFlows::default();
        for (id, peer, received) in [(1, 7, 10), (2, 7, 20), (3, 5, 10), (4, 9, 21)] {
            assert!(idle.insert(&record(id, peer, received)));
        }
        let active = |peer, id, received| {
            let quiet = QuietPeer { last_received: Time(received), flow: flow(id), rounds_asked: 0 };
            BTreeMap::from([(run(peer), quiet)])
        };
        let mut quiet = |active| -> Vec<(u64, u16, u64)> {
            let quiet = idle.quiet_peers(active, Time(20)).into_iter();
            quiet.map(|((node, _), peer)| (node.0, peer.flow.id(), peer.last_received.0)).collect()
        };
        assert_eq!(quiet(BTreeMap::new()), [(5, 3, 10), (7, 2, 20)]);
        assert_eq!(quiet(active(5, 8, 15)), [(5, 8, 15), (7, 2, 20)], "it has an active flow, too");
        assert_eq!(quiet(active(5, 8, 21)), [(7, 2, 20)], "it was heard on its active flow");
        assert_eq!(quiet(active(9, 8, 10)), [(5, 3, 10), (7, 2, 20)], "it was heard on its idle flow");
        assert_eq!(quiet(active(4, 8, 10)), [(4, 8, 10), (5, 3, 10), (7, 2, 20)]);
        idle.take(flow(2));
        let quiet = idle.quiet_peers(BTreeMap::new(), Time(20));
        let flows: Vec<u16> = quiet.iter().map(|(_, peer)| peer.flow.id()).collect();
        assert_eq!(flows, [3, 1], "flow 2 is active again");
    }
}
