//! Claims: a beacon that contradicts what is known of its node.
//!
//! Nothing proves who sent a beacon. If the largest incarnation were believed at once, and for good,
//! one forged beacon would bar a node from all who heard it. So it is no more than a claim, and both
//! are asked: who claims, at the address that the claim names, and who is known.
//!
//! ```text
//!                  a beacon: I am beta, run 9, at 02:..:b9         known: run 5, at 02:..:b5
//!   to 02:..:b9 ◀── Beacon, answer wanted; Probe with a number that only who is there hears
//!   to 02:..:b5 ◀── Beacon, answer wanted
//! ```
//!
//! A claim is believed when the claimant has said the number, and its beacon once more. A run that
//! was started *earlier* than the known one must in addition be the only one that answers, for
//! [`GRACE`]: news of an earlier run may just be late, and of two that live the later start counts. At
//! the known one's own address nobody else can be: it is asked, and its word counts.
//!
//! Nothing is final: who was believed and answers no more makes room for the next who claims.

use core::time::Duration;
use std::collections::VecDeque;

use wire::control::{Control, NodeId, Probe, ProbeSeen, Step};
use wire::{Address, Buffer};

use crate::config::Config;
use crate::node::Core;
use crate::output::{Contest, Peer};
use crate::sparing::Rate;
use crate::time::Time;

/// So long the known run of a node has time to answer. What it contradicted is looked at again after that.
const GRACE: Duration = Duration::from_millis(250);
/// Between the first and the second time that both are asked; it doubles.
const PAUSE: Duration = Duration::from_millis(8);
/// Beacons that may be missed before two nodes of one name are no longer known to be there.
const MISSED: u32 = 3;

/// Claims that are looked into at once, of one node or of many. For a new one the oldest is forgotten, of those that
/// have said nothing back if there are any: were the new one ignored, a flood of made-up ones would hide those that are
/// true; and did it displace what was claimed of that node before, the true one would be gone before its answer comes.
const MOST: usize = 256;

/// For a claim both are asked, with three frames at most: so often in the long run, however many claims there are, and at once as
/// often as claims are looked into at once.
const ASKED: Rate = Rate::new(Duration::from_millis(2), MOST as u32);

/// What somebody says of a node, against what is known.
#[derive(Clone, Copy, Debug)]
struct Claim {
    peer: Peer,
    /// What only who receives at the address that is claimed can say back.
    nonce: u32,
    since: Time,
    /// Not asked again before; and how long the next wait is.
    next: Time,
    pause: Duration,
    /// The number was said.
    answered: bool,
    /// The beacon came again.
    repeated: bool,
    /// Who is known has been heard since.
    opposed: bool,
}

#[derive(Debug)]
pub(crate) struct Claims {
    /// The oldest first; for a node there may be several.
    open: VecDeque<Claim>,
    /// How often was asked of late for claims of the address that is known, as a restart's is; and for claims of another, of which
    /// there is no end of made-up ones. These do not hinder those.
    asked: [Rate; 2],
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { open: VecDeque::new(), asked: [ASKED; 2] }
    }
}

impl Claims {
    fn find(&mut self, peer: &Peer) -> Option<&mut Claim> {
        self.open.iter_mut().find(|claim| claim.peer == *peer)
    }

    fn put(&mut self, new: Claim) {
        self.open.retain(|claim| claim.peer != new.peer);
        if self.open.len() == MOST {
            self.open.remove(self.open.iter().position(|claim| !claim.answered).unwrap_or(0));
        }
        self.open.push_back(new);
    }

    /// Who is known has been heard: what contradicts it.
    fn oppose(&mut self, node: NodeId) -> Vec<Peer> {
        let claims = self.open.iter_mut().filter(|claim| claim.peer.node == node);
        let opposed = |claim: &mut Claim| {
            claim.opposed = true;
            claim.peer
        };
        claims.map(opposed).collect()
    }

    /// What is said of it makes no difference any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.open.retain(|claim| claim.peer.node != node);
    }
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Open,
    Believed,
    /// It is refused, or stays open; both live.
    Contested,
}

impl Claim {
    fn new(peer: Peer, nonce: u32, now: Time) -> Claim {
        Claim { peer, nonce, since: now, next: now, pause: PAUSE, answered: false, repeated: false, opposed: false }
    }

    /// Who is known is alive: of what comes now, the next beacon decides anew.
    fn is_over(&self, now: Time) -> bool {
        self.opposed && now - self.since >= GRACE
    }

    fn verdict(&self, known: &Peer, now: Time) -> Verdict {
        let is_later = self.peer.incarnation > known.incarnation;
        let is_elsewhere = self.peer.address != known.address;
        let is_proven = self.answered && self.repeated;
        match self.opposed {
            false if is_proven && (is_later || now - self.since >= GRACE) => Verdict::Believed,
            true if is_proven && is_later && is_elsewhere => Verdict::Believed,
            true if self.answered && is_elsewhere => Verdict::Contested,
            _ => Verdict::Open,
        }
    }
}

impl<B: Buffer> Core<B> {
    /// A beacon contradicts what is known of its node.
    #[cold]
    pub(crate) fn claimed(&mut self, now: Time, at: usize, peer: Peer) {
        let nonce = self.random.next() as u32;
        match self.claims.find(&peer) {
            Some(claim) if !claim.is_over(now) => claim.repeated = true,
            _ => {
                self.counters.claims += 1;
                self.claims.put(Claim::new(peer, nonce, now));
            }
        }
        self.judge(now, at, &peer);
        self.challenge(now, at, &peer);
    }

    /// Ask both, if the claim still stands.
    fn challenge(&mut self, now: Time, at: usize, claimed: &Peer) {
        let Some(known) = self.peers.get(at).map(|record| record.peer) else { return };
        let Claims { open, asked } = &mut self.claims;
        let Some(claim) = open.iter_mut().find(|claim| claim.peer == *claimed && now >= claim.next) else { return };
        // What is not asked now is asked with its next beacon.
        if !asked[usize::from(claimed.address != known.address)].is_time(now) {
            return;
        }
        claim.next = now + claim.pause;
        claim.pause *= 2;
        let claimant = claim.peer.address;
        let probe = Probe { id: claim.nonce, node: self.config.node, step: Step::Forged };
        // The beacon first: who has not met us yet could not answer the probe.
        self.introduce(claimant, true);
        self.control.push(claimant, Control::Probe(probe));
        if claimant != known.address {
            self.introduce(known.address, true);
        }
    }

    /// A beacon says what is known already: whoever claims something else is contradicted.
    pub(crate) fn confirmed(&mut self, now: Time, at: usize, node: NodeId) {
        self.claims.oppose(node).iter().for_each(|claimed| self.judge(now, at, claimed));
    }

    /// Somebody has received a probe; whether it was the number of a claim.
    pub(crate) fn claimant_answers(&mut self, now: Time, source: Address, seen: &ProbeSeen) -> bool {
        let is_it = |claim: &&mut Claim| (claim.peer.address, claim.nonce) == (source, seen.id);
        let Some(claim) = self.claims.open.iter_mut().find(is_it) else { return false };
        claim.answered = true;
        let claimed = claim.peer;
        self.peers.by_node(claimed.node).into_iter().for_each(|at| self.judge(now, at, &claimed));
        true
    }

    fn judge(&mut self, now: Time, at: usize, claimed: &Peer) {
        let Some(known) = self.peers.get(at).map(|record| record.peer) else { return };
        let Some(claim) = self.claims.find(claimed) else { return };
        match claim.verdict(&known, now) {
            Verdict::Open => {}
            Verdict::Believed => self.believe(now, at, *claimed),
            Verdict::Contested => self.contest(now, &known, claimed),
        }
    }

    /// A beacon from somebody who says that it is this node. It may be late, from an earlier run; who says it
    /// again is there.
    #[cold]
    pub(crate) fn namesake(&mut self, now: Time, peer: Peer) {
        let &Config { node, incarnation, name, address, .. } = &self.config;
        let own = Peer { node, incarnation, name, address };
        // By several ways a node may hear itself, as somebody at another address.
        if peer.incarnation == incarnation {
            return;
        }
        match self.namesake {
            Some((before, since)) if before == peer && now - since < self.config.beacon * MISSED => {
                if now - since >= GRACE {
                    self.contest(now, &own, &peer);
                    self.namesake = Some((peer, now));
                }
            }
            _ => self.namesake = Some((peer, now)),
        }
    }

    fn contest(&mut self, now: Time, known: &Peer, claimed: &Peer) {
        self.counters.names_contested += 1;
        let addresses = [known.address, claimed.address];
        self.contest = Some((Contest { name: known.name, addresses }, now));
    }

    /// Getter: two nodes that live and claim one name, if there were such a short while ago.
    pub fn contested(&self) -> Option<Contest> {
        let (contest, since) = self.contest?;
        (self.now - since < self.config.beacon * MISSED).then_some(contest)
    }
}
