//! How an address conflict ends: this node believes the claimant, or reports a name conflict. See [`crate::claims`].

use am_wire::control::{Control, NodeId, Probe, ProbeSeen, Step};
use am_wire::{Address, Buffer};

use crate::claims::{Claim, Claims, GRACE, Verdict};
use crate::config::Config;
use crate::node::Core;
use crate::output::{Contest, Event, Peer};
use crate::time::Time;

/// A name conflict is no longer reported after so many beacon intervals without a new sign of it.
const MISSED: u32 = 3;

impl<B: Buffer> Core<B> {
    /// A beacon contradicts what is known of the beacon's node.
    #[cold]
    pub(crate) fn claimed(&mut self, now: Time, at: usize, peer: Peer) {
        let nonce = self.random.next() as u32;
        match self.discovery.claims.find(&peer) {
            Some(claim) if !claim.is_over(now) => claim.repeated = true,
            _ => {
                self.counters.claims += 1;
                self.discovery.claims.put(Claim::new(peer, nonce, now));
            }
        }
        self.judge(now, at, &peer);
        self.challenge(now, at, &peer);
    }

    /// Ask both sides, if the conflict is still open.
    fn challenge(&mut self, now: Time, at: usize, claimed: &Peer) {
        let Some(known) = self.discovery.peers.get(at).map(|record| record.peer) else { return };
        let Claims { open, asked } = &mut self.discovery.claims;
        let Some(claim) = open.iter_mut().find(|claim| claim.peer == *claimed && now >= claim.next) else { return };
        // If the limit is reached, both sides are asked at the next beacon.
        if !asked[usize::from(claimed.address != known.address)].is_time(now) {
            return;
        }
        claim.next = now + claim.pause;
        claim.pause *= 2;
        let claimant = claim.peer.address;
        let probe = Probe { id: claim.nonce, node: self.config.node, step: Step::Forged };
        // The beacon goes first: a claimant that does not know this node yet could not answer the probe.
        self.introduce(claimant, true);
        self.sending.control.push(claimant, Control::Probe(probe));
        if claimant != known.address {
            self.introduce(known.address, true);
        }
    }

    /// A beacon repeats what is known of its node. It contradicts every open claim.
    pub(crate) fn confirmed(&mut self, now: Time, at: usize, node: NodeId) {
        self.discovery.claims.oppose(node).iter().for_each(|claimed| self.judge(now, at, claimed));
    }

    /// A peer answered a probe. Returns whether the answer echoes the nonce of an open conflict.
    pub(crate) fn claimant_answers(&mut self, now: Time, source: Address, seen: &ProbeSeen) -> bool {
        let is_it = |claim: &&mut Claim| (claim.peer.address, claim.nonce) == (source, seen.id);
        let Some(claim) = self.discovery.claims.open.iter_mut().find(is_it) else { return false };
        claim.answered = true;
        let claimed = claim.peer;
        self.discovery.peers.by_node(claimed.node).into_iter().for_each(|at| self.judge(now, at, &claimed));
        true
    }

    fn judge(&mut self, now: Time, at: usize, claimed: &Peer) {
        let Some(known) = self.discovery.peers.get(at).map(|record| record.peer) else { return };
        let Some(claim) = self.discovery.claims.find(claimed) else { return };
        match claim.verdict(&known, now) {
            Verdict::Open => {}
            Verdict::Believed => self.believe(now, at, *claimed),
            Verdict::Contested => self.contest(now, &known, claimed),
        }
    }

    /// A beacon with this node's own id. It may be a late one, from an earlier run of this node. If it comes again,
    /// another node uses the same id.
    #[cold]
    pub(crate) fn namesake(&mut self, now: Time, peer: Peer) {
        let &Config { node, incarnation, name, address, .. } = &self.config;
        let own = Peer { node, incarnation, name, address };
        // With several transports a node may receive its own beacon, from another of its addresses.
        if peer.incarnation == incarnation {
            return;
        }
        match self.discovery.namesake {
            Some((before, since)) if before == peer && now - since < self.config.beacon * MISSED => {
                if now - since >= GRACE {
                    self.contest(now, &own, &peer);
                    self.discovery.namesake = Some((peer, now));
                }
            }
            _ => self.discovery.namesake = Some((peer, now)),
        }
    }

    fn contest(&mut self, now: Time, known: &Peer, claimed: &Peer) {
        self.counters.names_contested += 1;
        let addresses = [known.address, claimed.address];
        self.discovery.contest = Some((Contest { name: known.name, addresses }, now));
        self.outputs.events.push_back(Event::Contested);
    }

    /// Getter: two live nodes with one name, if such a conflict was seen lately.
    pub fn contested(&self) -> Option<Contest> {
        let (contest, since) = self.discovery.contest?;
        (self.now - since < self.config.beacon * MISSED).then_some(contest)
    }
}
