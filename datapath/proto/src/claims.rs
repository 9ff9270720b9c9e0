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

use am_wire::control::NodeId;

use crate::output::Peer;
use crate::sparing::Rate;
use crate::time::Time;

/// So long the known run of a node has time to answer. What it contradicted is looked at again after that.
pub(crate) const GRACE: Duration = Duration::from_millis(250);
/// Between the first and the second time that both are asked; it doubles.
const PAUSE: Duration = Duration::from_millis(8);

/// Claims that are looked into at once, of one node or of many. For a new one the oldest is forgotten, of those that
/// have said nothing back if there are any: were the new one ignored, a flood of made-up ones would hide those that are
/// true; and did it displace what was claimed of that node before, the true one would be gone before its answer comes.
const MOST: usize = 256;

/// For a claim both are asked, with three frames at most: so often in the long run, however many claims there are, and at once as
/// often as claims are looked into at once.
const ASKED: Rate = Rate::new(Duration::from_millis(2), MOST as u32);

/// What somebody says of a node, against what is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) peer: Peer,
    /// What only who receives at the address that is claimed can say back.
    pub(crate) nonce: u32,
    since: Time,
    /// Not asked again before; and how long the next wait is.
    pub(crate) next: Time,
    pub(crate) pause: Duration,
    /// The number was said.
    pub(crate) answered: bool,
    /// The beacon came again.
    pub(crate) repeated: bool,
    /// Who is known has been heard since.
    opposed: bool,
}

#[derive(Debug)]
pub(crate) struct Claims {
    /// The oldest first; for a node there may be several.
    pub(crate) open: VecDeque<Claim>,
    /// How often was asked of late for claims of the address that is known, as a restart's is; and for claims of another, of which
    /// there is no end of made-up ones. These do not hinder those.
    pub(crate) asked: [Rate; 2],
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { open: VecDeque::new(), asked: [ASKED; 2] }
    }
}

impl Claims {
    pub(crate) fn find(&mut self, peer: &Peer) -> Option<&mut Claim> {
        self.open.iter_mut().find(|claim| claim.peer == *peer)
    }

    pub(crate) fn put(&mut self, new: Claim) {
        self.open.retain(|claim| claim.peer != new.peer);
        if self.open.len() == MOST {
            self.open.remove(self.open.iter().position(|claim| !claim.answered).unwrap_or(0));
        }
        self.open.push_back(new);
    }

    /// Who is known has been heard: what contradicts it.
    pub(crate) fn oppose(&mut self, node: NodeId) -> Vec<Peer> {
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
pub(crate) enum Verdict {
    Open,
    Believed,
    /// It is refused, or stays open; both live.
    Contested,
}

impl Claim {
    pub(crate) fn new(peer: Peer, nonce: u32, now: Time) -> Claim {
        Claim { peer, nonce, since: now, next: now, pause: PAUSE, answered: false, repeated: false, opposed: false }
    }

    /// Who is known is alive: of what comes now, the next beacon decides anew.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.opposed && now - self.since >= GRACE
    }

    pub(crate) fn verdict(&self, known: &Peer, now: Time) -> Verdict {
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
