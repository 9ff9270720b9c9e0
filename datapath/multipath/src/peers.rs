//! The addresses of peers on each path, and the choice of a path.
//!
//! A peer is one run of a node: the node's number and its incarnation, which all its beacons carry. The protocol
//! sees one address of a peer, the one in its first beacon. Several runs may claim to be one node. The protocol asks
//! each of them, so no run hides another here.

use std::collections::HashMap;

use am_wire::Address;
use am_wire::control::{Beacon, Incarnation, NodeId};

/// The most transports of one node. No program opens more.
pub(crate) const MAX_PATHS: usize = 8;

/// The most peers. A new one replaces the peer whose last beacon is the oldest.
pub(crate) const MAX_PEERS: usize = 16_384;

/// A path that failed is on probation for 2^`penalty` beacons. Each failure adds one to the penalty, up to this.
const MAX_PENALTY: u8 = 5;

/// A peer on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerPath {
    /// Its address there, if a beacon has arrived on the path.
    pub(crate) address: Option<Address>,
    /// How often the path has failed lately.
    penalty: u8,
    /// How many more beacons have to arrive before the path is tried again.
    probation: u8,
    /// The last turn in which a frame other than a beacon arrived here. 0 if none has.
    last_turn: u64,
    /// This node left the path because the peer did, not because of loss. A frame on it ends the probation.
    left_with_peer: bool,
}

/// The paths that can be used now, a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsablePaths(pub(crate) u8);

impl UsablePaths {
    #[inline]
    pub(crate) fn has(self, path: usize) -> bool {
        self.0 >> path & 1 == 1
    }
}

/// After a peer has changed its path, frames still arrive on the old one for at most this many turns.
const LATE_TURNS: u64 = 16;

/// After this many frames in a row on worse paths, and none on the best, the peer has left the best.
const MIN_FRAMES_ELSEWHERE: u8 = 4;

impl PeerPath {
    /// Whether the peer has an address here, and the path is not on probation.
    fn is_trusted(&self) -> bool {
        self.address.is_some() && self.probation == 0
    }

    /// Frames seem not to arrive on it. It is on probation now.
    fn demote(&mut self) {
        self.left_with_peer = false;
        self.penalty = (self.penalty + 1).min(MAX_PENALTY);
        self.probation = 1 << self.penalty;
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    node: NodeId,
    incarnation: Incarnation,
    /// Its address for the protocol.
    pub(crate) address: Address,
    pub(crate) paths: [PeerPath; MAX_PATHS],
    /// The path that was used last.
    pub(crate) active: Option<usize>,
    /// The path on which the last set-up frame arrived, and its turn.
    setup_path: (usize, u64),
    /// How many frames in a row have arrived on worse paths than the best.
    frames_elsewhere: u8,
    /// The number of its last beacon, among the beacons of all peers.
    heard: u64,
}

/// All peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) all: Vec<Peer>,
    by_run: HashMap<(NodeId, Incarnation), usize>,
    /// By the address that the protocol sees.
    by_address: HashMap<Address, usize>,
    /// By the address on a path.
    by_path: HashMap<(usize, Address), usize>,
    beacons: u64,
    /// Protocol addresses of the peers that have a new path, or a new address on a path, since this was last taken.
    pub(crate) found: Vec<Address>,
}

impl Peers {
    /// The peer with this address for the protocol.
    #[inline]
    pub(crate) fn index(&self, address: Address) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// A frame has arrived on a path, from this address there. Returns the peer's address for the protocol.
    ///
    /// A peer that sends on a worse path has stopped using the best one. This node follows it, because it may not
    /// notice the failure itself: acknowledgements are not answered, so a node that sends nothing else does not
    /// notice their loss.
    #[inline]
    pub(crate) fn on_frame(
        &mut self,
        path: usize,
        address: Address,
        turn: u64,
        usable: UsablePaths,
    ) -> Option<Address> {
        let peer = &mut self.all[*self.by_path.get(&(path, address))?];
        let state = &mut peer.paths[path];
        state.last_turn = turn;
        if std::mem::take(&mut state.left_with_peer) {
            state.probation = 0;
        }
        peer.follow_peer(path, turn, usable);
        Some(peer.address)
    }

    /// The same for a frame of a set-up. It is answered on the path on which it arrived.
    pub(crate) fn on_setup(&mut self, path: usize, address: Address, turn: u64) -> Option<Address> {
        let peer = &mut self.all[*self.by_path.get(&(path, address))?];
        peer.setup_path = (path, turn);
        Some(peer.address)
    }

    /// A beacon has arrived on a path. Returns the address of its sender for the protocol.
    pub(crate) fn on_beacon(&mut self, path: usize, beacon: &Beacon) -> Address {
        self.beacons += 1;
        let known = self.by_run.get(&(beacon.node, beacon.incarnation)).copied();
        let index = known.unwrap_or_else(|| self.add(beacon));
        let (beacons, peer) = (self.beacons, &mut self.all[index]);
        peer.heard = beacons;
        let state = &mut peer.paths[path];
        let before = state.address.replace(beacon.address);
        match state.probation.checked_sub(1) {
            Some(left) => state.probation = left,
            None => state.penalty = state.penalty.saturating_sub(1),
        }
        let protocol_address = peer.address;
        if before != Some(beacon.address) {
            before.into_iter().for_each(|old| self.remove_path_address(path, old, index));
            self.found.push(protocol_address);
        }
        // A beacon of another run may have taken these index entries.
        self.by_path.insert((path, beacon.address), index);
        self.by_address.insert(protocol_address, index);
        protocol_address
    }

    /// The peer at this address on a path is gone, as the transport reports. Returns the peer's address for the
    /// protocol if this was its last path.
    pub(crate) fn on_gone(&mut self, path: usize, address: Address) -> Option<Address> {
        let index = self.by_path.remove(&(path, address))?;
        let peer = &mut self.all[index];
        peer.paths[path] = PeerPath::default();
        (peer.known_paths() == 0).then_some(peer.address)
    }

    /// The address for the protocol of the peer at this address on a path.
    pub(crate) fn by_link(&self, path: usize, address: Address) -> Option<Address> {
        self.by_path.get(&(path, address)).map(|&index| self.all[index].address)
    }

    /// This address on a path no longer belongs to that peer.
    fn remove_path_address(&mut self, path: usize, address: Address, index: usize) {
        if self.by_path.get(&(path, address)) == Some(&index) {
            self.by_path.remove(&(path, address));
        }
    }

    /// Add a peer, in place of the oldest if the table is full.
    fn add(&mut self, beacon: &Beacon) -> usize {
        let Beacon { node, incarnation, address, .. } = *beacon;
        let new = Peer {
            node,
            incarnation,
            address,
            paths: [PeerPath::default(); MAX_PATHS],
            active: None,
            setup_path: (0, 0),
            frames_elsewhere: 0,
            heard: 0,
        };
        let mut index = self.all.len();
        if index < MAX_PEERS {
            self.all.push(new);
        } else {
            index = (0..index).min_by_key(|&index| self.all[index].heard).unwrap_or(0);
            let old = std::mem::replace(&mut self.all[index], new);
            self.by_run.remove(&(old.node, old.incarnation));
            if self.by_address.get(&old.address) == Some(&index) {
                self.by_address.remove(&old.address);
            }
            for (path, state) in old.paths.iter().enumerate() {
                state.address.into_iter().for_each(|address| self.remove_path_address(path, address, index));
            }
        }
        self.by_run.insert((node, incarnation), index);
        self.by_address.insert(address, index);
        index
    }

    /// Frames to the peer seem not to arrive. The path that they took is on probation now. False if there is no other path.
    pub(crate) fn report_loss(&mut self, index: usize, usable: UsablePaths) -> bool {
        let peer = &mut self.all[index];
        let Some((path, _)) = peer.best_path(usable) else { return false };
        let mut others = peer.paths.iter().enumerate().filter(|(at, state)| *at != path && state.address.is_some());
        let has_other = others.any(|(at, _)| usable.has(at));
        if has_other {
            peer.paths[path].demote();
        }
        has_other
    }
}

impl Peer {
    /// The best path to the peer, and its address there: the first that is trusted; if none is, the one whose probation
    /// ends soonest.
    #[inline]
    pub(crate) fn best_path(&self, usable: UsablePaths) -> Option<(usize, Address)> {
        let usable =
            || self.paths.iter().enumerate().filter(|(path, state)| state.address.is_some() && usable.has(*path));
        let (path, state) = usable()
            .find(|(_, state)| state.is_trusted())
            .or_else(|| usable().min_by_key(|(_, state)| state.probation))?;
        state.address.map(|address| (path, address))
    }

    /// The path for an answer to a set-up frame, and the peer's address there.
    pub(crate) fn reply_path(&self, turn: u64, usable: UsablePaths) -> Option<(usize, Address)> {
        let (path, setup_turn) = self.setup_path;
        let is_recent = setup_turn > 0 && setup_turn + LATE_TURNS >= turn;
        let address = self.paths[path].address.filter(|_| is_recent && usable.has(path));
        address.map(|address| (path, address)).or_else(|| self.best_path(usable))
    }

    /// The peer has sent on this path. Leave the best path if the peer has left it.
    #[inline]
    fn follow_peer(&mut self, path: usize, turn: u64, usable: UsablePaths) {
        while let Some((best, _)) = self.best_path(usable) {
            if best >= path {
                self.frames_elsewhere = 0;
                return;
            }
            self.frames_elsewhere = self.frames_elsewhere.saturating_add(1);
            let state = &self.paths[best];
            // A peer that has never used the best path may not know it yet.
            let is_left = if state.last_turn > 0 {
                state.last_turn + LATE_TURNS < turn
            } else {
                self.frames_elsewhere >= MIN_FRAMES_ELSEWHERE
            };
            if !is_left || !self.paths[path].is_trusted() || !usable.has(path) {
                return;
            }
            self.paths[best].demote();
            self.paths[best].left_with_peer = true;
        }
    }

    /// How many paths lead to the peer, usable or not.
    pub(crate) fn known_paths(&self) -> usize {
        self.paths.iter().filter(|state| state.address.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use am_wire::Framings;
    use am_wire::control::{Name, Purpose};

    use super::*;

    fn beacon(node: u64, run: u64, last: u8) -> Beacon {
        Beacon {
            node: NodeId(node),
            incarnation: Incarnation(run),
            name: Name::new("beta").expect("a name"),
            address: Address([2, 0, 0, 0, 0, last]),
            framings: Framings::ALL,
            max_frame: 1514,
            purpose: Purpose::Announce,
        }
    }

    fn way(peers: &Peers, above: Address, usable: u8) -> Option<usize> {
        let index = peers.index(above)?;
        peers.all[index].best_path(UsablePaths(usable)).map(|(path, _)| path)
    }

    #[test]
    fn a_peer_has_one_address_and_takes_the_first_usable_path() {
        let mut peers = Peers::default();
        let above = peers.on_beacon(1, &beacon(7, 1, 0xb1));
        assert_eq!(peers.on_beacon(0, &beacon(7, 1, 0xb0)), above);
        assert_eq!(peers.on_frame(0, Address([2, 0, 0, 0, 0, 0xb0]), 1, UsablePaths(0b11)), Some(above));
        assert_eq!(way(&peers, above, 0b11), Some(0));
        assert_eq!(way(&peers, above, 0b10), Some(1));
        assert_eq!(way(&peers, above, 0), None);
    }

    #[test]
    fn a_failed_path_is_tried_again_after_longer_and_longer_probation() {
        let mut peers = Peers::default();
        let above = peers.on_beacon(0, &beacon(7, 1, 1));
        let index = peers.index(above).expect("known");
        assert!(!peers.report_loss(index, UsablePaths(0b11)), "there is no other path");
        peers.on_beacon(1, &beacon(7, 1, 2));
        let mut waited = vec![];
        for _ in 0..3 {
            assert!(peers.report_loss(index, UsablePaths(0b11)));
            waited.push(
                (0..99)
                    .take_while(|_| {
                        way(&peers, above, 0b11) == Some(1) && peers.on_beacon(0, &beacon(7, 1, 1)) == above
                    })
                    .count(),
            );
        }
        assert_eq!(waited, [2, 4, 8]);
        assert!(peers.report_loss(index, UsablePaths(0b11)));
        assert!(peers.report_loss(index, UsablePaths(0b11)));
        assert_eq!(way(&peers, above, 0b11), Some(1), "both have failed: the one that failed less");
    }

    #[test]
    fn no_run_hides_another() {
        let mut peers = Peers::default();
        let mine = Address([2, 0, 0, 0, 0, 2]);
        let above = peers.on_beacon(0, &beacon(7, 5, 1));
        peers.on_beacon(1, &beacon(7, 5, 2));
        for run in [9, 1] {
            assert_eq!(peers.on_beacon(1, &beacon(7, run, 2)), mine, "another run claims the same address");
            assert_eq!(way(&peers, above, 0b11), Some(0), "the true one is where it was");
            assert_eq!(peers.on_beacon(1, &beacon(7, 5, 2)), above);
            assert_eq!(peers.on_frame(1, mine, 1, UsablePaths(0b11)), Some(above), "and has its own address again");
        }
        assert_eq!(peers.on_beacon(0, &beacon(7, 6, 9)), Address([2, 0, 0, 0, 0, 9]), "started again elsewhere");
    }

    #[test]
    fn a_peer_that_leaves_its_last_path_is_gone() {
        let mut peers = Peers::default();
        let [first, second] = [1, 2].map(|last| Address([2, 0, 0, 0, 0, last]));
        let above = peers.on_beacon(0, &beacon(7, 1, 1));
        peers.on_beacon(1, &beacon(7, 1, 2));
        assert_eq!((peers.on_gone(1, first), peers.on_gone(0, first)), (None, None), "another path is left");
        assert_eq!(way(&peers, above, 0b11), Some(1));
        assert_eq!((peers.on_gone(1, second), peers.on_gone(1, second)), (Some(above), None), "once");
        assert_eq!(way(&peers, above, 0b11), None);
        assert_eq!(peers.on_beacon(0, &beacon(7, 1, 3)), above);
        assert_eq!(way(&peers, above, 0b11), Some(0), "it is there again");
    }

    #[test]
    fn peers_are_bounded() {
        let mut peers = Peers::default();
        let address = |n: usize| Address::from_u64(0x0200_0000_0000 | n as u64);
        for n in 0..MAX_PEERS + 10 {
            peers.on_beacon(0, &Beacon { address: address(n), ..beacon(n as u64, 1, 0) });
        }
        assert_eq!((peers.all.len(), peers.by_path.len(), peers.by_address.len()), (MAX_PEERS, MAX_PEERS, MAX_PEERS));
        assert_eq!(peers.index(address(5)), None);
        assert!(peers.index(address(MAX_PEERS + 9)).is_some());
    }
}
