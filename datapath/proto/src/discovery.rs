//! Discovery. Each node broadcasts a beacon when it starts, and then from time to time, so that switches remember its
//! true address.

use am_wire::control::{Beacon, CloseCause, Control, Name, NodeId, Purpose};
use am_wire::{Address, Buffer};

use crate::control_queue::DeferredControl;
use crate::flow::Phase;
use crate::node::Core;
use crate::output::{Departure, Event, MemberChange, Peer, ReturnReason};
use crate::peers::{BeaconNews, PeerRun};
use crate::presence::FIRST_BEACON_PAUSE;
use crate::time::Time;

impl<B: Buffer> Core<B> {
    /// From above: add a peer from a static table. Incarnation 0 means unknown.
    pub fn add_peer(&mut self, peer: Peer) {
        let now = self.now;
        let run_at = |at: usize| self.discovery.peers.records[at].peer.incarnation;
        match self.discovery.peers.by_node(peer.node) {
            None => self.learn_peer(now, peer),
            Some(at) if run_at(at) <= peer.incarnation => self.accept_peer(now, at, peer),
            // The peer's own beacon named a later run.
            Some(_) => {}
        }
        self.discovery.peers.make_static(peer.node);
    }

    /// From above: this peer is no longer in a static table. It may be forgotten to make room for others.
    pub fn release_peer(&mut self, node: NodeId) {
        self.discovery.peers.make_replaceable(node);
    }

    /// From above: the transport has got an address at which a peer may be. The peer there is asked to introduce itself, with the next
    /// outputs. It may be the one that set-ups search for, so these wait a little with a question to all.
    pub fn on_address_added(&mut self, now: Time) {
        self.discovery.search.on_address_added(now);
        self.introduce();
    }

    /// From below: the node has another address on its link, as when its NIC got a new one. Open flows go on. Peers learn the new
    /// address by beacons: a few follow soon, because each peer first asks whether the old address still answers.
    pub fn set_address(&mut self, now: Time, address: Address) {
        self.config.address = address;
        self.flows.forget_templates();
        for id in self.flows.filter(|record| record.phase == Phase::Open) {
            self.set_reject_template(id);
        }
        self.broadcast_beacon(false);
        self.time.beacon_pause = FIRST_BEACON_PAUSE;
        self.arm_beacon(now);
    }

    /// From above: forget this peer. Its flows end as if it had closed them, and it is notified. It becomes known again
    /// with its next beacon.
    pub fn remove_peer(&mut self, node: NodeId) {
        for id in self.flows.filter_of(|&(id, _)| id == node, |_| true) {
            self.end_flow(id, ReturnReason::Closed, None);
            self.sending.deferred_control.push_back(DeferredControl::Closed(id.flow));
        }
        self.forget_peer(node, Departure::Forgotten);
    }

    pub(crate) fn forget_peer(&mut self, node: NodeId, why: Departure) {
        if let Some(at) = self.discovery.peers.by_node(node) {
            self.end_membership(at, why);
        }
        self.discovery.peers.remove(node);
        self.discovery.address_conflicts.forget(node);
    }

    pub(crate) fn on_beacon(&mut self, now: Time, beacon: &Beacon) {
        let Beacon { node, incarnation, name, address, .. } = *beacon;
        let peer = Peer { node, incarnation, name, address };
        if node == self.config.node {
            return self.on_duplicate_name(now, peer);
        }
        self.learn_peer(now, peer);
        let mut is_answered = false;
        if let Some(at) = self.discovery.peers.by_node(node).filter(|&at| self.discovery.peers.records[at].peer == peer)
        {
            let asks = beacon.purpose == Purpose::Ask;
            is_answered = asks && !self.discovery.peers.records[at].answers.try_take(now);
            self.discovery.peers.records[at].max_frame = beacon.max_frame.max(Control::MAX_FRAME as u32);
            match beacon.purpose {
                Purpose::Heartbeat => self.on_peer_alive(address),
                Purpose::Announce | Purpose::Ask => self.on_polling_again(now, &peer),
            }
        }
        if beacon.purpose == Purpose::Ask && !is_answered && self.time.beacon_answers.try_take(now) {
            self.send_beacon(address, false);
        }
    }

    fn learn_peer(&mut self, now: Time, peer: Peer) {
        match self.discovery.peers.learn(peer) {
            BeaconNews::Same(at) => {
                // With a key, beacons cannot be made up, but sent again.
                let is_proof = self.config.key.is_none();
                self.discovery
                    .peers
                    .presence_mut(at)
                    .into_iter()
                    .for_each(|presence| presence.on_beacon(now, is_proof));
                // A beacon that repeats what is known of its node contradicts every open claim.
                let contradicted = self.discovery.address_conflicts.contradict(peer.node);
                contradicted.iter().for_each(|claimed| self.judge(now, at, claimed));
            }
            BeaconNews::New => self.on_new_peer(now, peer.name),
            BeaconNews::Replaced(forgotten) => {
                self.counters.peers_forgotten += 1;
                let departure = MemberChange::Left(Departure::Forgotten);
                self.outputs.events.extend(forgotten.map(|member| Event::Member(member, departure)));
                self.on_new_peer(now, peer.name);
            }
            BeaconNews::Conflict(at) => {
                self.note_claim(now, peer);
                self.judge(now, at, &peer);
                self.ask_both(now, at, &peer);
            }
            BeaconNews::TooMany => self.counters.peers_ignored += 1,
        }
    }

    /// If something was alive that had not introduced itself, set-ups have waited for it, and their patience begins now.
    fn on_new_peer(&mut self, now: Time, peer: Name) {
        if self.discovery.not_polling.recent(Address::BROADCAST, now).is_some() {
            self.renew_patience(now, peer);
        }
        self.advance_setups(now, peer);
    }

    /// A claim of another address may be believed by now.
    pub(crate) fn judge(&mut self, now: Time, at: usize, claimed: &Peer) {
        if self.is_believed(now, at, claimed) {
            self.accept_peer(now, at, *claimed);
        }
    }

    /// Accept this address and run of a peer. A restarted peer knows nothing of its earlier run's flows, so those end.
    /// Set-ups under way now ask the new run.
    fn accept_peer(&mut self, now: Time, at: usize, peer: Peer) {
        let known = self.discovery.peers.records[at].peer;
        let has_answered = self.discovery.address_conflicts.find(&peer).is_some_and(|claim| claim.is_contradicted);
        self.on_member_accepted(now, at, &peer);
        self.discovery.address_conflicts.forget(peer.node);
        let is_other = |&(id, run): &PeerRun| id == peer.node && run != peer.incarnation;
        for id in self.flows.filter_of(is_other, |record| !record.is_connecting()) {
            let reason = if has_answered { ReturnReason::NameTaken } else { ReturnReason::Restarted };
            self.end_flow(id, reason, None);
            if known.address != peer.address {
                // The earlier run may be alive, and then learns why.
                self.discovery.unknown_flows.set_cause(id.flow, CloseCause::Name);
            }
        }
        self.reroute(&peer);
        self.advance_setups(now, peer.name);
    }

    /// The run that a peer's flows belong to may have moved to another address. The flows go on there.
    fn reroute(&mut self, peer: &Peer) {
        let is_its = |&(id, run): &PeerRun| id == peer.node && run == peer.incarnation;
        for id in self.flows.filter_of(is_its, |record| record.route.to != peer.address) {
            let Some(record) = self.flows.get_mut(id) else { continue };
            record.route_to(peer.address);
            if record.phase == Phase::Open {
                self.set_reject_template(id);
            }
        }
    }

    /// The program of this peer polls again. Send again what it may have missed. The patience of its set-ups starts anew,
    /// because the program has a backlog.
    fn on_polling_again(&mut self, now: Time, peer: &Peer) {
        let address = peer.address;
        if self.discovery.not_polling.0.remove(&address).is_none() {
            return;
        }
        self.renew_patience(now, peer.name);
        for id in self.flows.filter(|record| record.phase == Phase::Open && record.route.to == address) {
            let Some(record) = self.flows.get_mut(id) else { continue };
            record.rtt.backoff = 0;
            if record.in_flight() { self.resend(now, id.flow) } else { self.ask_for_credit(now, id.flow) }
        }
    }
}
