//! Discovery: nodes introduce themselves, at the start to everybody and then
//! from time to time, so that switches remember where their true address is.

use wire::control::{Beacon, Control, NodeId};
use wire::{Address, Buffer, Framings};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Peer, ReturnReason};
use crate::peers::News;
use crate::time::Time;
use crate::timers::Wait;

impl<B: Buffer> Core<B> {
    /// From above: a peer that is known without discovery (a static table).
    /// Its incarnation may be 0: not known.
    pub fn add_peer(&mut self, peer: Peer) {
        self.learned(self.now, peer);
        self.peers.keep(peer.node);
    }

    /// From above: ask who is there, with the next outputs. Nodes that were
    /// not within reach before may be now.
    pub fn seek(&mut self) {
        self.announce(true);
    }

    /// From above: this peer is to go. Conversations with it end, as if it had
    /// closed them, and it is told; it is not known any more until it is heard again.
    pub fn remove_peer(&mut self, node: NodeId) {
        let its = |record: &&FlowRecord| matches!(record.remote.node, Some((id, _)) if id == node);
        let ids: Vec<_> = self.flows.iter().filter(its).map(|record| record.id).collect();
        for id in ids {
            self.say_farewell(id);
            self.end(id, ReturnReason::Closed);
        }
        self.peers.remove(node);
    }

    /// Introduce this node to everybody; `answer`: and ask who is there.
    pub(crate) fn announce(&mut self, answer: bool) {
        self.introduce(Address::BROADCAST, answer);
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
        self.control.push(to, Control::Beacon(beacon));
    }

    pub(crate) fn beacon_timeout(&mut self, now: Time, at: Time) {
        if self.beacon_armed.fired(at) {
            self.announce(false);
            self.look_after_quiet(now);
            let next = now + self.config.beacon;
            self.timers.arm(&mut self.beacon_armed, Wait::Beacon, 0, next);
        }
    }

    pub(crate) fn on_beacon(&mut self, now: Time, beacon: &Beacon) {
        if beacon.node == self.config.node {
            return;
        }
        let Beacon { node, incarnation, name, address, .. } = *beacon;
        self.learned(now, Peer { node, incarnation, name, address });
        if beacon.answer {
            self.introduce(address, false);
        }
    }

    fn learned(&mut self, now: Time, peer: Peer) {
        match self.peers.learn(peer) {
            News::Same => {}
            News::New => self.advance_asking(now, peer.name),
            News::Instead => {
                self.counters.peers_forgotten += 1;
                self.advance_asking(now, peer.name);
            }
            News::Restarted => self.restarted(now, peer),
            News::Stale => self.counters.stale_control += 1,
            News::TooMany => self.counters.peers_ignored += 1,
        }
    }

    /// A peer was started again: it knows nothing of the flows of its earlier run. What is asked for, is
    /// asked of this one.
    fn restarted(&mut self, now: Time, peer: Peer) {
        let is_old = |record: &&FlowRecord| {
            record.phase != Phase::Asking
                && matches!(record.remote.node, Some((id, run)) if id == peer.node && run < peer.incarnation)
        };
        let old: Vec<_> = self.flows.iter().filter(is_old).map(|record| record.id).collect();
        for id in old {
            self.end(id, ReturnReason::Restarted);
        }
        self.advance_asking(now, peer.name);
    }
}
