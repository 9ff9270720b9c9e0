//! Discovery. Each node broadcasts a beacon when it starts, and then from time to time, so that switches remember its
//! true address.

use am_wire::control::{Beacon, Control, NodeId};
use am_wire::{Address, Buffer, Framings};

use crate::control_queue::Later;
use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Peer, ReturnReason};
use crate::peers::News;
use crate::time::Time;
use crate::timers::Wait;

impl<B: Buffer> Core<B> {
    /// From above: add a peer from a static table. Incarnation 0 means unknown.
    pub fn add_peer(&mut self, peer: Peer) {
        let now = self.now;
        let known = self
            .discovery
            .peers
            .by_node(peer.node)
            .and_then(|at| Some((at, self.discovery.peers.get(at)?.peer.incarnation)));
        match known {
            None => self.learned(now, peer),
            Some((at, incarnation)) if incarnation <= peer.incarnation => self.believe(now, at, peer),
            // The peer's own beacon named a later run.
            Some(_) => {}
        }
        self.discovery.peers.keep(peer.node);
    }

    /// From above: ask all nodes to introduce themselves, with the next outputs. Nodes may have come within reach.
    pub fn seek(&mut self) {
        self.announce(true);
    }

    /// From above: forget this peer. Its flows end as if it had closed them, and it is notified. It becomes known again
    /// with its next beacon.
    pub fn remove_peer(&mut self, node: NodeId) {
        let its = |record: &FlowRecord| matches!(record.remote.node, Some((id, _)) if id == node);
        for id in self.flows.those(its) {
            self.end(id, ReturnReason::Closed, None);
            self.sending.later.push_back(Later::Closed(id.flow));
        }
        self.discovery.peers.remove(node);
        self.discovery.claims.forget(node);
    }

    /// Broadcast a beacon. With `answer` it asks every receiver for its own beacon.
    pub(crate) fn announce(&mut self, answer: bool) {
        if !self.sending.control.announces() {
            self.introduce(Address::BROADCAST, answer);
        }
    }

    pub(crate) fn introduce(&mut self, to: Address, answer: bool) {
        let beacon = Beacon {
            node: self.config.node,
            incarnation: self.config.incarnation,
            name: self.config.name,
            address: self.config.address,
            framings: Framings::ALL,
            max_frame: self.config.max_frame as u32,
            answer,
        };
        self.sending.control.push(to, Control::Beacon(beacon));
    }

    pub(crate) fn beacon_timeout(&mut self, now: Time, at: Time) {
        if self.time.beacon_armed.fired(at) {
            self.announce(false);
            let next = now + self.config.beacon;
            self.time.timers.arm(&mut self.time.beacon_armed, Wait::Beacon, 0, next);
        }
    }

    pub(crate) fn on_beacon(&mut self, now: Time, beacon: &Beacon) {
        let Beacon { node, incarnation, name, address, .. } = *beacon;
        let peer = Peer { node, incarnation, name, address };
        if node == self.config.node {
            return self.namesake(now, peer);
        }
        self.learned(now, peer);
        if let Some(record) = self.discovery.peers.by_node(node).and_then(|at| self.discovery.peers.get(at))
            && record.peer == peer
        {
            record.max_frame = beacon.max_frame.max(Control::LONGEST_FRAME as u32);
        }
        if beacon.answer && self.discovery.answers.is_time(now) {
            self.introduce(address, false);
        }
    }

    fn learned(&mut self, now: Time, peer: Peer) {
        match self.discovery.peers.learn(peer) {
            News::Same(at) => self.confirmed(now, at, peer.node),
            News::New => self.advance_asking(now, peer.name),
            News::Instead => {
                self.counters.peers_forgotten += 1;
                self.advance_asking(now, peer.name);
            }
            News::Claimed(at) => self.claimed(now, at, peer),
            News::TooMany => self.counters.peers_ignored += 1,
        }
    }

    /// Accept this address and run of a peer. A restarted peer knows nothing of its earlier run's flows, so those end.
    /// Set-ups under way now ask the new run.
    pub(crate) fn believe(&mut self, now: Time, at: usize, peer: Peer) {
        self.discovery.peers.replace(at, peer);
        self.discovery.claims.forget(peer.node);
        let is_other = |record: &FlowRecord| {
            record.phase != Phase::Asking
                && matches!(record.remote.node, Some((id, run)) if id == peer.node && run != peer.incarnation)
        };
        for id in self.flows.those(is_other) {
            self.end(id, ReturnReason::Restarted, None);
        }
        self.advance_asking(now, peer.name);
    }
}
