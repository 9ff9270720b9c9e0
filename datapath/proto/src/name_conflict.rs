//! How an address conflict ends: this node believes the claimant, or reports a name conflict. See [`crate::address_conflict`].

use core::time::Duration;

use am_wire::control::{Control, Incarnation, Probe, Refusal, Refuse, Step};
use am_wire::{Address, Buffer};

use crate::address_conflict::{ANSWER_TIME, AddressConflict, AddressConflicts, ConflictVerdict};
use crate::config::Config;
use crate::node::Core;
use crate::output::{Event, NameConflict, Peer};
use crate::time::Time;

/// A name conflict is no longer reported after this many beacon intervals without a new sign of it.
const MAX_MISSED_BEACONS: u32 = 3;
/// How long two nodes of one name count as alive after both have answered. One of them may have ended since.
const VERDICT_TIME: Duration = Duration::from_millis(500);

impl<B: Buffer> Core<B> {
    /// A beacon contradicts what is known of the beacon's node.
    #[cold]
    pub(crate) fn note_claim(&mut self, now: Time, peer: Peer) {
        let nonce = self.random.next() as u32;
        match self.discovery.address_conflicts.find(&peer) {
            Some(claim) if !claim.is_expired(now) => claim.was_repeated = true,
            _ => {
                self.counters.claims += 1;
                self.discovery.address_conflicts.insert(AddressConflict::new(peer, nonce, now));
            }
        }
    }

    /// Ask both sides, if the conflict is still open.
    pub(crate) fn ask_both(&mut self, now: Time, at: usize, claimed: &Peer) {
        let known = self.discovery.peers.records[at].peer;
        let AddressConflicts { open, ask_rates: asked } = &mut self.discovery.address_conflicts;
        let Some(claim) = open.iter_mut().find(|claim| claim.peer == *claimed && now >= claim.ask_again_at) else {
            return;
        };
        // If the limit is reached, both sides are asked at the next beacon.
        if !asked[usize::from(claimed.address != known.address)].try_take(now) {
            return;
        }
        claim.ask_again_at = now + claim.ask_pause;
        claim.ask_pause = (2 * claim.ask_pause).min(ANSWER_TIME);
        let claimant = claim.peer.address;
        let probe = Probe { id: claim.nonce, node: self.config.node, step: Step::Forged };
        // The beacon goes first: a claimant that does not know this node yet could not answer the probe.
        self.send_beacon(claimant, true);
        self.sending.control.push(claimant, Control::Probe(probe));
        if claimant != known.address {
            self.send_beacon(known.address, true);
        }
    }

    /// Ask again about open conflicts, without waiting for the claimants' next beacons.
    pub(crate) fn ask_about_conflicts(&mut self, now: Time) {
        let open: Vec<Peer> = self.discovery.address_conflicts.open.iter().map(|claim| claim.peer).collect();
        for claimed in open {
            let at = self.discovery.peers.by_node(claimed.node);
            at.into_iter().for_each(|at| self.ask_both(now, at, &claimed));
        }
    }

    /// Whether this claim is believed by now. If both sides are alive, report it.
    pub(crate) fn is_believed(&mut self, now: Time, at: usize, claimed: &Peer) -> bool {
        let known = self.discovery.peers.records[at].peer;
        let verdict = self.discovery.address_conflicts.find(claimed).map(|claim| claim.verdict(&known, now));
        if verdict == Some(ConflictVerdict::BothAlive) {
            self.refuse_name(now, &known, claimed);
            self.report_name_conflict(now, &known, claimed);
        }
        verdict == Some(ConflictVerdict::Believed)
    }

    /// A beacon with this node's own id. It may be a late one, from an earlier run of this node. If it comes again,
    /// another node uses the same id.
    #[cold]
    pub(crate) fn on_duplicate_name(&mut self, now: Time, peer: Peer) {
        let &Config { node, incarnation, name, address, .. } = &self.config;
        let own = Peer { node, incarnation, name, address };
        // With several transports a node may receive its own beacon, from another of its addresses.
        if peer.incarnation == incarnation {
            return;
        }
        match self.discovery.duplicate_name {
            Some((before, since)) if before == peer && now - since < self.config.beacon * MAX_MISSED_BEACONS => {
                if now - since >= ANSWER_TIME {
                    self.report_name_conflict(now, &own, &peer);
                    self.discovery.duplicate_name = Some((peer, now));
                }
            }
            _ => self.discovery.duplicate_name = Some((peer, now)),
        }
    }

    /// Of two live nodes the earlier run learns that this node talks with the later one. Over UDP it does not hear that one.
    fn refuse_name(&mut self, now: Time, known: &Peer, claimed: &Peer) {
        let is_early = self.discovery.name_refused_at.is_some_and(|before| now - before < ANSWER_TIME);
        if claimed.incarnation < known.incarnation && !is_early {
            self.discovery.name_refused_at = Some(now);
            let refuse = Refuse { id: claimed.incarnation.0 as u32, why: Refusal::Name };
            self.sending.control.push(claimed.address, Control::Refuse(refuse));
        }
    }

    /// An earlier run asks for a flow, and both were found alive just now: another answer would not be better.
    pub(crate) fn is_displaced(&self, now: Time, source: Address, run: Incarnation, known: Incarnation) -> bool {
        let is_it = |conflict: NameConflict| conflict.addresses[1] == source;
        run < known
            && self
                .discovery
                .name_conflict
                .is_some_and(|(conflict, since)| is_it(conflict) && now - since < VERDICT_TIME)
    }

    /// Getter: a peer that talks with another node of this one's name, if it said so lately.
    pub fn name_lost(&self) -> Option<Address> {
        let (by, since) = self.discovery.name_lost?;
        (self.now - since < self.config.beacon * MAX_MISSED_BEACONS).then_some(by)
    }

    fn report_name_conflict(&mut self, now: Time, known: &Peer, claimed: &Peer) {
        self.counters.names_contested += 1;
        let addresses = [known.address, claimed.address];
        self.discovery.name_conflict = Some((NameConflict { name: known.name, addresses }, now));
        self.outputs.events.push_back(Event::NameConflict);
    }

    /// Getter: two live nodes with one name, if such a conflict was seen lately.
    pub fn name_conflict(&self) -> Option<NameConflict> {
        let (conflict, since) = self.discovery.name_conflict?;
        (self.now - since < self.config.beacon * MAX_MISSED_BEACONS).then_some(conflict)
    }
}
