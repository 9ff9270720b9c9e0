//! Who is where on which way, and which way is taken.
//!
//! A peer is a run of a node: its node's number and its incarnation, which all its beacons carry. Above, it
//! has one address: the first that it was heard with. Which run of a node is the true one is for those above
//! to find out, by asking each; so none hides another.

use std::collections::HashMap;

use am_wire::Address;
use am_wire::control::{Beacon, Incarnation, NodeId};

/// Transports of one node, at most: more than a program opens.
pub(crate) const MOST_WAYS: usize = 8;

/// Peers that are known at once; the one that was not heard longest gives way.
pub(crate) const MOST_PEERS: usize = 16_384;

/// A way that failed a peer owes it beacons before it is tried again: twice as
/// many after each failure, up to two to this power.
const MOST_PENALTY: u8 = 5;

/// A peer on one way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Its address there, if it was heard.
    pub(crate) address: Option<Address>,
    /// How often the way has failed it lately.
    penalty: u8,
    /// Beacons to come before the way is tried again.
    owes: u8,
    /// The turn in which something came in here last; 0 if nothing did yet but beacons.
    heard: u64,
    /// It was left only because its peer did not send by it: what comes by it mends that.
    followed: bool,
}

/// Ways that can be taken now, a bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usable(pub(crate) u8);

impl Usable {
    #[inline]
    fn has(self, way: usize) -> bool {
        self.0 >> way & 1 == 1
    }
}

/// What was under way when a peer changed its way comes in for so many turns
/// at most beside what comes by the new one.
const LATE: u64 = 16;

/// So many frames by a worse way, and none by the best, are no accident.
const SOME: u8 = 4;

impl Link {
    /// Whether the peer was heard here, and nothing is held against the way.
    fn is_trusted(&self) -> bool {
        self.address.is_some() && self.owes == 0
    }

    /// Nothing arrives by it, it seems: it is not taken for a while.
    fn fail(&mut self) {
        self.followed = false;
        self.penalty = (self.penalty + 1).min(MOST_PENALTY);
        self.owes = 1 << self.penalty;
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    node: NodeId,
    incarnation: Incarnation,
    /// What it is called above.
    pub(crate) address: Address,
    pub(crate) links: [Link; MOST_WAYS],
    /// The way that was taken last.
    taken: Option<usize>,
    /// The way by which something of a set-up came last, and in which turn.
    asked: (usize, u64),
    /// Frames in a row that came by worse ways than the one that is taken.
    elsewhere: u8,
    /// When it was heard, counted in beacons of all.
    heard: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    all: Vec<Peer>,
    by_run: HashMap<(NodeId, Incarnation), usize>,
    /// By the address that it has above.
    by_address: HashMap<Address, usize>,
    /// By the address that it has on a way.
    by_link: HashMap<(usize, Address), usize>,
    beacons: u64,
    /// Those, as they are called above, that were found on another way, or at another address there, since this was looked at.
    pub(crate) found: Vec<Address>,
}

impl Peers {
    /// The peer that has this address above.
    #[inline]
    pub(crate) fn index(&self, address: Address) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Peer {
        &self.all[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Peer {
        &mut self.all[index]
    }

    /// Something came in on a way, from somebody at this address there: what
    /// they are called above.
    ///
    /// Who sends by another way than the best has given that one up, and knows
    /// more than we do: what answers nothing (acknowledgements) would go lost
    /// there, and nobody here would miss an answer.
    #[inline]
    pub(crate) fn heard(&mut self, way: usize, link: Address, turn: u64, usable: Usable) -> Option<Address> {
        let peer = &mut self.all[*self.by_link.get(&(way, link))?];
        let link = &mut peer.links[way];
        link.heard = turn;
        if std::mem::take(&mut link.followed) {
            link.owes = 0;
        }
        peer.follow(way, turn, usable);
        Some(peer.address)
    }

    /// The same for a frame of a set-up: it is answered by the way it came.
    pub(crate) fn asked(&mut self, way: usize, link: Address, turn: u64) -> Option<Address> {
        let peer = &mut self.all[*self.by_link.get(&(way, link))?];
        peer.asked = (way, turn);
        Some(peer.address)
    }

    /// A beacon came in on a way. What its sender is called above.
    pub(crate) fn hear(&mut self, way: usize, beacon: &Beacon) -> Address {
        self.beacons += 1;
        let known = self.by_run.get(&(beacon.node, beacon.incarnation)).copied();
        let index = known.unwrap_or_else(|| self.add(beacon));
        let (beacons, peer) = (self.beacons, &mut self.all[index]);
        peer.heard = beacons;
        let link = &mut peer.links[way];
        let before = link.address.replace(beacon.address);
        match link.owes.checked_sub(1) {
            Some(owes) => link.owes = owes,
            None => link.penalty = link.penalty.saturating_sub(1),
        }
        let above = peer.address;
        if before != Some(beacon.address) {
            before.into_iter().for_each(|old| self.unlink(way, old, index));
            self.found.push(above);
        }
        // Another run of it may have been heard there meanwhile.
        self.by_link.insert((way, beacon.address), index);
        self.by_address.insert(above, index);
        above
    }

    /// Nobody is at this address on a way any more. What its peer is called above, if nothing else leads there.
    pub(crate) fn gone(&mut self, way: usize, link: Address) -> Option<Address> {
        let index = self.by_link.remove(&(way, link))?;
        let peer = &mut self.all[index];
        peer.links[way] = Link::default();
        (peer.known() == 0).then_some(peer.address)
    }

    /// This is no longer where that peer is on a way.
    fn unlink(&mut self, way: usize, link: Address, index: usize) {
        if self.by_link.get(&(way, link)) == Some(&index) {
            self.by_link.remove(&(way, link));
        }
    }

    fn add(&mut self, beacon: &Beacon) -> usize {
        if self.all.len() == MOST_PEERS {
            let oldest = (0..self.all.len()).min_by_key(|&index| self.all[index].heard).unwrap_or(0);
            return self.replace(oldest, beacon);
        }
        let index = self.all.len();
        self.all.push(Peer::new(beacon));
        self.enter(index);
        index
    }

    /// Somebody else is at this place in the table now.
    fn replace(&mut self, index: usize, beacon: &Beacon) -> usize {
        let old = std::mem::replace(&mut self.all[index], Peer::new(beacon));
        self.by_run.remove(&(old.node, old.incarnation));
        if self.by_address.get(&old.address) == Some(&index) {
            self.by_address.remove(&old.address);
        }
        for (way, link) in old.links.iter().enumerate() {
            link.address.into_iter().for_each(|address| self.unlink(way, address, index));
        }
        self.enter(index);
        index
    }

    fn enter(&mut self, index: usize) {
        let Peer { node, incarnation, address, .. } = self.all[index];
        self.by_run.insert((node, incarnation), index);
        self.by_address.insert(address, index);
    }

    /// Nothing of what was sent to it arrives, it seems: the way on which that
    /// was sent is not taken for a while. False where there is no other.
    pub(crate) fn suspect(&mut self, index: usize, usable: Usable) -> bool {
        let peer = &mut self.all[index];
        let Some((way, _)) = peer.way(usable) else { return false };
        let mut others = peer.links.iter().enumerate().filter(|(at, link)| *at != way && link.address.is_some());
        let has_other = others.any(|(at, _)| usable.has(at));
        if has_other {
            peer.links[way].fail();
        }
        has_other
    }
}

impl Peer {
    fn new(beacon: &Beacon) -> Peer {
        let Beacon { node, incarnation, address, .. } = *beacon;
        Peer {
            node,
            incarnation,
            address,
            links: [Link::default(); MOST_WAYS],
            taken: None,
            asked: (0, 0),
            elsewhere: 0,
            heard: 0,
        }
    }

    /// The best way to it, and its address there: the first that is trusted;
    /// where none is, the one that owes least.
    #[inline]
    pub(crate) fn way(&self, usable: Usable) -> Option<(usize, Address)> {
        let usable = || self.links.iter().enumerate().filter(|(way, link)| link.address.is_some() && usable.has(*way));
        let (way, link) =
            usable().find(|(_, link)| link.is_trusted()).or_else(|| usable().min_by_key(|(_, link)| link.owes))?;
        link.address.map(|address| (way, address))
    }

    /// The way to it for an answer in this turn, and its address there.
    pub(crate) fn way_back(&self, turn: u64, usable: Usable) -> Option<(usize, Address)> {
        let (way, asked) = self.asked;
        let link = self.links[way].address.filter(|_| asked > 0 && asked + LATE >= turn && usable.has(way));
        link.map(|address| (way, address)).or_else(|| self.way(usable))
    }

    /// It has sent by this way: so do we, if it has left the best.
    #[inline]
    fn follow(&mut self, way: usize, turn: u64, usable: Usable) {
        while let Some((best, _)) = self.way(usable) {
            if best >= way {
                self.elsewhere = 0;
                return;
            }
            self.elsewhere = self.elsewhere.saturating_add(1);
            let link = &self.links[best];
            // Who has never used the best may just not know of it yet.
            let is_left = if link.heard > 0 { link.heard + LATE < turn } else { self.elsewhere >= SOME };
            if !is_left || !self.links[way].is_trusted() || !usable.has(way) {
                return;
            }
            self.links[best].fail();
            self.links[best].followed = true;
        }
    }

    /// This way is taken now. The one before, if it is another.
    #[inline]
    pub(crate) fn take(&mut self, way: usize) -> Option<usize> {
        self.taken.replace(way).filter(|before| *before != way)
    }

    /// How many ways lead to it, whether or not they are taken.
    pub(crate) fn known(&self) -> usize {
        self.links.iter().filter(|link| link.address.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use am_wire::Framings;
    use am_wire::control::Name;

    use super::*;

    fn beacon(node: u64, run: u64, last: u8) -> Beacon {
        Beacon {
            node: NodeId(node),
            incarnation: Incarnation(run),
            name: Name::new("beta").expect("a name"),
            address: Address([2, 0, 0, 0, 0, last]),
            framings: Framings::ALL,
            max_frame: 1514,
            answer: false,
        }
    }

    fn way(peers: &Peers, above: Address, usable: u8) -> Option<usize> {
        let index = peers.index(above)?;
        peers.get(index).way(Usable(usable)).map(|(way, _)| way)
    }

    #[test]
    fn one_node_has_one_address_above_and_the_first_way_that_works() {
        let mut peers = Peers::default();
        let above = peers.hear(1, &beacon(7, 1, 0xb1));
        assert_eq!(peers.hear(0, &beacon(7, 1, 0xb0)), above);
        assert_eq!(peers.heard(0, Address([2, 0, 0, 0, 0, 0xb0]), 1, Usable(0b11)), Some(above));
        assert_eq!(way(&peers, above, 0b11), Some(0));
        assert_eq!(way(&peers, above, 0b10), Some(1));
        assert_eq!(way(&peers, above, 0), None);
    }

    #[test]
    fn a_way_that_fails_is_tried_again_later_and_later() {
        let mut peers = Peers::default();
        let above = peers.hear(0, &beacon(7, 1, 1));
        let index = peers.index(above).expect("known");
        assert!(!peers.suspect(index, Usable(0b11)), "there is no other");
        peers.hear(1, &beacon(7, 1, 2));
        let mut waited = vec![];
        for _ in 0..3 {
            assert!(peers.suspect(index, Usable(0b11)));
            waited.push(
                (0..99)
                    .take_while(|_| way(&peers, above, 0b11) == Some(1) && peers.hear(0, &beacon(7, 1, 1)) == above)
                    .count(),
            );
        }
        assert_eq!(waited, [2, 4, 8]);
        assert!(peers.suspect(index, Usable(0b11)));
        assert!(peers.suspect(index, Usable(0b11)));
        assert_eq!(way(&peers, above, 0b11), Some(1), "both have failed: the one that did so less");
    }

    #[test]
    fn no_run_hides_another() {
        let mut peers = Peers::default();
        let mine = Address([2, 0, 0, 0, 0, 2]);
        let above = peers.hear(0, &beacon(7, 5, 1));
        peers.hear(1, &beacon(7, 5, 2));
        for run in [9, 1] {
            assert_eq!(peers.hear(1, &beacon(7, run, 2)), mine, "somebody says it is another run, at the same address");
            assert_eq!(way(&peers, above, 0b11), Some(0), "the true one is where it was");
            assert_eq!(peers.hear(1, &beacon(7, 5, 2)), above);
            assert_eq!(peers.heard(1, mine, 1, Usable(0b11)), Some(above), "and has what is its own again");
        }
        assert_eq!(peers.hear(0, &beacon(7, 6, 9)), Address([2, 0, 0, 0, 0, 9]), "started again elsewhere");
    }

    #[test]
    fn who_leaves_the_last_way_is_gone() {
        let mut peers = Peers::default();
        let [first, second] = [1, 2].map(|last| Address([2, 0, 0, 0, 0, last]));
        let above = peers.hear(0, &beacon(7, 1, 1));
        peers.hear(1, &beacon(7, 1, 2));
        assert_eq!((peers.gone(1, first), peers.gone(0, first)), (None, None), "the other is left");
        assert_eq!(way(&peers, above, 0b11), Some(1));
        assert_eq!((peers.gone(1, second), peers.gone(1, second)), (Some(above), None), "once");
        assert_eq!(way(&peers, above, 0b11), None);
        assert_eq!(peers.hear(0, &beacon(7, 1, 3)), above);
        assert_eq!(way(&peers, above, 0b11), Some(0), "it is there again");
    }

    #[test]
    fn they_are_bounded() {
        let mut peers = Peers::default();
        let address = |n: usize| Address::from_u64(0x0200_0000_0000 | n as u64);
        for n in 0..MOST_PEERS + 10 {
            peers.hear(0, &Beacon { address: address(n), ..beacon(n as u64, 1, 0) });
        }
        assert_eq!(
            (peers.all.len(), peers.by_link.len(), peers.by_address.len()),
            (MOST_PEERS, MOST_PEERS, MOST_PEERS)
        );
        assert_eq!(peers.index(address(5)), None);
        assert!(peers.index(address(MOST_PEERS + 9)).is_some());
    }
}
