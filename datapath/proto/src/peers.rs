//! The known nodes, from discovery or from a static table (Directed Point's NART, §3.2).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use am_wire::Address;
use am_wire::control::{Incarnation, Name, NodeId};

use crate::output::Peer;
use crate::path::{Known, Path};
use crate::timers::Armed;

#[derive(Debug)]
pub(crate) struct PeerRecord {
    pub(crate) peer: Peer,
    pub(crate) path: Path,
    pub(crate) armed: Armed,
    /// The longest frame that the peer can receive, as far as it has said.
    pub(crate) max_frame: u32,
    /// Open flows with this peer.
    flows: u16,
    /// The peer did not answer a request for a flow.
    pub(crate) mute: bool,
    stay: Stay,
}

/// Whether a new peer may take this record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// Yes, if this is the least wanted peer.
    Heard,
    /// No: the peer is in a static table. Nothing on the network makes this node forget it.
    Fixed,
    /// The peer was removed. The next new one takes this place.
    Vacant,
}

/// The most peers to remember, so that a flood of forged beacons fills no memory and takes no time to search. A new
/// peer replaces another. If it were ignored instead, the flood would cut off all nodes that this one has yet to meet.
/// A forgotten peer that is wanted again is searched for again.
const MOST: usize = 1 << 14;

/// The table grows by this many records. Doubling would leave up to half of it unused.
const MORE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    records: Vec<PeerRecord>,
    /// The index in `records` by node. Other nodes choose their ids, so the hash is keyed.
    places: HashMap<NodeId, u32>,
    /// The same by a hash of the name. Several nodes may claim one name.
    named: BTreeSet<(u32, u32)>,
    hasher: RandomState,
    /// The index by probe number, possibly out of date.
    probed: BTreeMap<u32, u32>,
    /// Where the search for a peer to forget continues.
    hand: usize,
    /// Indices of removed records.
    vacant: Vec<u32>,
}

/// The incarnation of a peer that has not named its own.
const UNHEARD: Incarnation = Incarnation(0);

/// What a beacon changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing.
    Same(usize),
    /// The node was unknown.
    New,
    /// The beacon contradicts what is known.
    Claimed(usize),
    /// The node was unknown, and another was forgotten for it.
    Instead,
    /// The node is unknown, and there is no room to remember it.
    TooMany,
}

impl Peers {
    /// Record what a beacon says.
    pub(crate) fn learn(&mut self, peer: Peer) -> News {
        let Some((at, record)) = self.by_node(peer.node).and_then(|at| Some((at, self.records.get_mut(at)?))) else {
            return self.add(PeerRecord::new(peer));
        };
        match record.peer {
            known if known == peer => News::Same(at),
            Peer { incarnation: UNHEARD, .. } => {
                self.replace(at, peer);
                News::New
            }
            _ => News::Claimed(at),
        }
    }

    fn add(&mut self, record: PeerRecord) -> News {
        if let Some(at) = self.vacant.pop() {
            self.index(at, &record.peer);
            self.records[at as usize] = record;
            return News::New;
        }
        if self.records.len() < MOST {
            if self.records.len() == self.records.capacity() {
                self.records.reserve_exact(MORE);
            }
            self.index(self.records.len() as u32, &record.peer);
            self.records.push(record);
            return News::New;
        }
        let Some(at) = self.least_wanted() else { return News::TooMany };
        self.hand = at + 1;
        self.unindex(at as u32);
        self.index(at as u32, &record.peer);
        // A timer of the replaced peer does not match the new one's timer, and is ignored.
        self.records[at] = record;
        News::Instead
    }

    fn index(&mut self, at: u32, peer: &Peer) {
        self.places.insert(peer.node, at);
        self.named.insert((self.hash(peer.name), at));
    }

    fn unindex(&mut self, at: u32) {
        let Peer { node, name, .. } = self.records[at as usize].peer;
        self.places.remove(&node);
        self.named.remove(&(self.hash(name), at));
    }

    /// Replace what is known of a peer. A new run may have opened its NIC in another way, so the path is probed again.
    pub(crate) fn replace(&mut self, at: usize, peer: Peer) {
        self.unindex(at as u32);
        self.index(at as u32, &peer);
        let record = &mut self.records[at];
        if (peer.address, peer.incarnation) != (record.peer.address, record.peer.incarnation) {
            (record.path, record.max_frame) = (Path::Unknown, u32::MAX);
        }
        (record.peer, record.mute) = (peer, false);
    }

    /// A peer without flows that is not being probed. The search starts at the oldest, so that a new peer has time to
    /// ask for a flow.
    fn least_wanted(&self) -> Option<usize> {
        let mut around = (0..MOST).map(|n| (self.hand + n) % MOST);
        around.find(|&at| self.records[at].is_unused())
    }

    /// A flow with this peer opened.
    pub(crate) fn begin(&mut self, at: usize) {
        self.records[at].flows += 1;
    }

    /// An open flow with this node ended. The peer may have been forgotten meanwhile, and learned again.
    pub(crate) fn end(&mut self, node: NodeId) {
        if let Some(at) = self.by_node(node) {
            self.records[at].flows = self.records[at].flows.saturating_sub(1);
        }
    }

    /// Forget this node until its next beacon.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(&at) = self.places.get(&node) else { return };
        self.unindex(at);
        let record = &mut self.records[at as usize];
        // A probe timer that is still queued is ignored.
        (record.stay, record.armed) = (Stay::Vacant, Armed::default());
        self.vacant.push(at);
    }

    /// Never forget this node.
    pub(crate) fn keep(&mut self, node: NodeId) {
        let record = self.by_node(node).and_then(|at| self.records.get_mut(at));
        record.into_iter().for_each(|record| record.stay = Stay::Fixed);
    }

    /// The address of a peer in a static table from which no beacon arrived yet. It may not know this node, and then
    /// could not answer a request.
    pub(crate) fn unheard(&self, at: usize) -> Option<Address> {
        let peer = &self.records.get(at)?.peer;
        (peer.incarnation == UNHEARD).then_some(peer.address)
    }

    /// The node with this name. Of several: one that answers, and of these the latest run.
    pub(crate) fn by_name(&self, name: Name) -> Option<usize> {
        let hash = self.hash(name);
        let named = self.named.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, at)| at as usize);
        let named = named.filter(|&at| self.records[at].peer.name == name);
        named.max_by_key(|&at| (!self.records[at].mute, self.records[at].peer.incarnation))
    }

    /// The node that announced this address.
    pub(crate) fn learned_at(&self, address: Address) -> Option<NodeId> {
        let its = |record: &&PeerRecord| record.stay == Stay::Heard && record.peer.address == address;
        self.records.iter().find(its).map(|record| record.peer.node)
    }

    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn by_node(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).map(|&at| at as usize)
    }

    /// The node that is being probed with this number.
    pub(crate) fn by_probe(&self, id: u32) -> Option<usize> {
        let at = *self.probed.get(&id)? as usize;
        self.records[at].is_probed_with(id).then_some(at)
    }

    /// A node is probed with this number from now on.
    pub(crate) fn probe(&mut self, at: usize, id: u32) {
        if self.probed.len() >= MORE {
            let records = &self.records;
            self.probed.retain(|&id, at| records[*at as usize].is_probed_with(id));
        }
        self.probed.insert(id, at as u32);
    }

    fn hash(&self, name: Name) -> u32 {
        self.hasher.hash_one(name) as u32
    }

    pub(crate) fn get(&mut self, at: usize) -> Option<&mut PeerRecord> {
        self.records.get_mut(at)
    }

    /// The peers whose path is known.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Peer, &Known)> {
        self.live()
            .filter_map(|record| if let Path::Known(known) = &record.path { Some((&record.peer, known)) } else { None })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.live().map(|record| &record.peer)
    }

    fn live(&self) -> impl Iterator<Item = &PeerRecord> {
        self.records.iter().filter(|record| record.stay != Stay::Vacant)
    }
}

impl PeerRecord {
    fn is_unused(&self) -> bool {
        self.flows == 0 && self.stay == Stay::Heard && !matches!(self.path, Path::Probing(_))
    }

    fn is_probed_with(&self, id: u32) -> bool {
        matches!(&self.path, Path::Probing(probing) if probing.id == id)
    }

    fn new(peer: Peer) -> Self {
        let (path, armed) = (Path::Unknown, Armed::default());
        PeerRecord { peer, path, armed, max_frame: u32::MAX, flows: 0, mute: false, stay: Stay::Heard }
    }
}

#[cfg(test)]
mod tests {
    use am_wire::Framing;

    use super::*;
    use crate::output::FramingWhy;

    fn peer(node: u64, run: u64) -> Peer {
        let name = Name::new("peer").expect("a good name");
        Peer { node: NodeId(node), incarnation: Incarnation(run), name, address: Address::from_u64(node) }
    }

    #[test]
    fn what_contradicts_is_a_claim() {
        let mut peers = Peers::default();
        assert_eq!(peers.learn(peer(1, 5)), News::New);
        assert_eq!(peers.learn(peer(1, 5)), News::Same(0));
        let elsewhere = Peer { address: Address::from_u64(9), ..peer(1, 5) };
        for other in [peer(1, 4), peer(1, 6), elsewhere] {
            assert_eq!(peers.learn(other), News::Claimed(0));
        }
        assert_eq!(peers.learn(peer(1, 5)), News::Same(0), "nothing is believed yet");
    }

    #[test]
    fn who_has_not_been_heard_is_believed() {
        let mut peers = Peers::default();
        peers.learn(peer(1, 0));
        assert_eq!((peers.learn(peer(1, 5)), peers.learn(peer(1, 5))), (News::New, News::Same(0)));
    }

    #[test]
    fn of_two_with_one_name_the_later_start_counts() {
        let mut peers = Peers::default();
        for (node, run) in [(1, 5), (2, 9), (3, 7)] {
            peers.learn(peer(node, run));
        }
        let name = Name::new("peer").expect("a good name");
        assert_eq!(peers.by_name(name), peers.by_node(NodeId(2)));
        peers.get(1).expect("just learned").mute = true;
        assert_eq!(peers.by_name(name), peers.by_node(NodeId(3)), "of those that answer");
    }

    #[test]
    fn a_flood_of_names_is_bounded() {
        let mut peers = Peers::default();
        let news: Vec<News> = (0..MOST as u64 + 1).map(|node| peers.learn(peer(node, 1))).collect();
        assert_eq!(news.last(), Some(&News::Instead));
        assert_eq!(peers.iter().count(), MOST);
        assert_eq!(peers.by_node(NodeId(0)), None, "the oldest is forgotten");
        assert_eq!(peers.learn(peer(1, 1)), News::Same(1), "those that are known still are");
    }

    #[test]
    fn a_flood_does_not_make_us_forget_whom_we_talk_to() {
        let mut peers = Peers::default();
        for node in [1, 2] {
            peers.learn(peer(node, 1));
        }
        peers.keep(NodeId(1));
        peers.begin(1);
        for node in 3..3 * MOST as u64 {
            peers.learn(peer(node, 1));
        }
        assert!(peers.by_node(NodeId(1)).is_some() && peers.by_node(NodeId(2)).is_some());
        peers.end(NodeId(2));
        (0..MOST as u64).for_each(|node| _ = peers.learn(peer(3 * MOST as u64 + node, 1)));
        assert!(peers.by_node(NodeId(1)).is_some() && peers.by_node(NodeId(2)).is_none());
    }

    /// All earlier peers had flows, and those have ended.
    #[test]
    fn newcomers_do_not_push_each_other_out() {
        let mut peers = Peers::default();
        let known = Known { framing: Framing::Bare, why: FramingWhy::NothingLearns, max_frame: 1514 };
        for node in 0..MOST as u64 {
            peers.learn(peer(node, 1));
            peers.get(node as usize).expect("just learned").path = Path::Known(known);
        }
        let newcomers = 1 << 20..(1 << 20) + 1000;
        newcomers.clone().for_each(|node| assert_eq!(peers.learn(peer(node, 1)), News::Instead));
        assert!(newcomers.into_iter().all(|node| peers.by_node(NodeId(node)).is_some()));
    }

    #[test]
    fn who_is_removed_leaves_a_place() {
        let mut peers = Peers::default();
        // All have one name: the latest run is found by it.
        for (node, run) in [(1, 1), (2, 9), (3, 2)] {
            peers.learn(peer(node, run));
        }
        peers.keep(NodeId(2));
        assert_eq!(peers.by_name(peer(2, 1).name), peers.by_node(NodeId(2)));
        peers.remove(NodeId(2));
        peers.remove(NodeId(2));
        assert_eq!((peers.by_node(NodeId(2)), peers.by_name(peer(2, 1).name)), (None, peers.by_node(NodeId(3))));
        assert_eq!(peers.iter().count(), 2);
        assert_eq!((peers.learn(peer(4, 1)), peers.learn(peer(2, 1))), (News::New, News::New), "known anew");
        assert_eq!((peers.iter().count(), peers.records.len()), (4, 4));
    }

    #[test]
    fn a_static_table_that_fills_all_room_stays() {
        let mut peers = Peers::default();
        for node in 0..MOST as u64 {
            peers.learn(peer(node, 1));
            peers.keep(NodeId(node));
        }
        assert_eq!(peers.learn(peer(1 << 20, 1)), News::TooMany);
    }
}
