//! Address conflicts: a beacon that contradicts what this node knows of the beacon's node.
//!
//! Nothing proves the sender of a beacon. If this node believed the largest incarnation at once and for good, one forged
//! beacon would cut a node off from every receiver of that beacon. So the beacon is only a claim, and this node asks
//! both: the claimant, at the address in the beacon, and the known run.
//!
//! ```text
//!                  a beacon: I am beta, run 9, at 02:..:b9         known: run 5, at 02:..:b5
//!   to 02:..:b9 ◀── Beacon that asks for an answer; Probe with a nonce
//!   to 02:..:b5 ◀── Beacon that asks for an answer
//! ```
//!
//! This node believes the claimant after it has echoed the nonce and repeated its beacon. A claim of an *earlier* run
//! than the known one must meet one more condition: the known run does not answer for [`ANSWER_TIME`]. A beacon of an
//! earlier run may only be late, and of two live runs the later one counts. A claim of the known run's own address is
//! refused if that run answers: only that run receives there.
//!
//! No decision is final. If a believed node stops answering, the next claimant can take its place.

use core::time::Duration;
use std::collections::VecDeque;

use am_wire::Address;
use am_wire::control::NodeId;

use crate::output::Peer;
use crate::rate_limit::RateLimit;
use crate::time::Time;

/// How long the known run of a node has time to answer. After that, a repeated beacon starts the conflict anew.
pub(crate) const ANSWER_TIME: Duration = Duration::from_millis(250);
/// Wait between the first and the second time that both sides are asked. It doubles each time, up to [`ANSWER_TIME`]: many answers may be lost.
const FIRST_ASK_PAUSE: Duration = Duration::from_millis(8);

/// The most open conflicts, of all nodes together. A new one replaces the oldest conflict without an echoed nonce, or
/// the oldest of all. If new ones were ignored instead, a flood of forged beacons would hide the genuine ones. If a new
/// one replaced the open one of the same node, a genuine claim would be dropped before its answer arrives.
const MAX_OPEN_CONFLICTS: usize = 256;

/// Asking both sides of a conflict takes at most three frames. This limits how often that happens in the long run. The
/// burst allows one round for each open conflict.
const ASK_RATE: RateLimit = RateLimit::new(Duration::from_millis(2), MAX_OPEN_CONFLICTS as u32);

/// What a beacon claims about a node, against what is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressConflict {
    pub(crate) peer: Peer,
    /// Echoing it proves that the claimant receives at the claimed address.
    pub(crate) nonce: u32,
    since: Time,
    /// When both sides may be asked next, and how long the wait after that is.
    pub(crate) ask_again_at: Time,
    pub(crate) ask_pause: Duration,
    pub(crate) has_echoed_nonce: bool,
    pub(crate) was_repeated: bool,
    /// The known run has been received since.
    pub(crate) is_contradicted: bool,
}

#[derive(Debug)]
pub(crate) struct AddressConflicts {
    /// Oldest first. A node may have several.
    pub(crate) open: VecDeque<AddressConflict>,
    /// Two limits on asking: for claims of the known address, as after a restart, and for claims of another address.
    /// Forged claims of other addresses are unlimited in number, so they must not use up the limit of the first kind.
    pub(crate) ask_rates: [RateLimit; 2],
}

impl Default for AddressConflicts {
    fn default() -> AddressConflicts {
        AddressConflicts { open: VecDeque::new(), ask_rates: [ASK_RATE; 2] }
    }
}

impl AddressConflicts {
    pub(crate) fn find(&mut self, peer: &Peer) -> Option<&mut AddressConflict> {
        self.open.iter_mut().find(|claim| claim.peer == *peer)
    }

    pub(crate) fn insert(&mut self, new: AddressConflict) {
        self.open.retain(|claim| claim.peer != new.peer);
        if self.open.len() == MAX_OPEN_CONFLICTS {
            self.open.remove(self.open.iter().position(|claim| !claim.has_echoed_nonce).unwrap_or(0));
        }
        self.open.push_back(new);
    }

    /// A frame of the known run arrived. Returns the claims that this contradicts.
    pub(crate) fn contradict(&mut self, node: NodeId) -> Vec<Peer> {
        let claims = self.open.iter_mut().filter(|claim| claim.peer.node == node);
        let opposed = |claim: &mut AddressConflict| {
            claim.is_contradicted = true;
            claim.peer
        };
        claims.map(opposed).collect()
    }

    /// The claimant at this address has answered the probe with this nonce. Returns what it claims.
    pub(crate) fn note_answer(&mut self, source: Address, nonce: u32) -> Option<Peer> {
        let claim = self.open.iter_mut().find(|claim| (claim.peer.address, claim.nonce) == (source, nonce))?;
        claim.has_echoed_nonce = true;
        Some(claim.peer)
    }

    /// Claims about this node no longer matter.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.open.retain(|claim| claim.peer.node != node);
    }
}

/// What to do about a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictVerdict {
    Open,
    Believed,
    /// Two nodes are alive. The claim is refused, or stays open.
    BothAlive,
}

impl AddressConflict {
    pub(crate) fn new(peer: Peer, nonce: u32, now: Time) -> AddressConflict {
        AddressConflict {
            peer,
            nonce,
            since: now,
            ask_again_at: now,
            ask_pause: FIRST_ASK_PAUSE,
            has_echoed_nonce: false,
            was_repeated: false,
            is_contradicted: false,
        }
    }

    /// The known run is alive and the claim had its time: the next beacon starts the conflict anew.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        self.is_contradicted && now - self.since >= ANSWER_TIME
    }

    pub(crate) fn verdict(&self, known: &Peer, now: Time) -> ConflictVerdict {
        let is_later = self.peer.incarnation > known.incarnation;
        let is_elsewhere = self.peer.address != known.address;
        let is_proven = self.has_echoed_nonce && self.was_repeated;
        match self.is_contradicted {
            false if is_proven && (is_later || now - self.since >= ANSWER_TIME) => ConflictVerdict::Believed,
            true if is_proven && is_later && is_elsewhere => ConflictVerdict::Believed,
            true if self.has_echoed_nonce && is_elsewhere => ConflictVerdict::BothAlive,
            _ => ConflictVerdict::Open,
        }
    }
}
