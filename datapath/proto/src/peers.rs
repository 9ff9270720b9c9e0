//! The nodes that are known, by discovery or from a static table
//! (Directed Point's NART, §3.2).

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
    /// The longest frame that it can receive, as far as it has said.
    pub(crate) max_frame: u32,
    /// Open flows with it.
    flows: u16,
    /// It was asked for a flow, and answered nothing.
    pub(crate) mute: bool,
    stay: Stay,
}

/// Whether a record gives way to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// When it is the least wanted.
    Heard,
    /// Never: of a static table, nothing on the network may make us forget it.
    Fixed,
    /// It is removed: its place is for the next that comes.
    Vacant,
}

/// The most peers that are remembered, so that a flood of made-up beacons
/// fills no memory and takes no time to look through. For a new one another is
/// forgotten: were the new one ignored, the flood would cut off all that we
/// have yet to meet. Whoever is forgotten and wanted is asked for again.
const MOST: usize = 1 << 14;

/// Records are made room for by so many: doubling would leave half of many unused.
const MORE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    records: Vec<PeerRecord>,
    /// Where in `records` a node is. Others choose their ids: the hash is keyed.
    places: HashMap<NodeId, u32>,
    /// The same by a hash of its name, which several may claim.
    named: BTreeSet<(u32, u32)>,
    hasher: RandomState,
    /// The node that was probed with this number, if it still is.
    probed: BTreeMap<u32, u32>,
    /// Where to look next for one to forget.
    hand: usize,
    /// Places of those that were removed.
    vacant: Vec<u32>,
}

/// The run of a peer that has not said itself which it is.
const UNHEARD: Incarnation = Incarnation(0);

/// What news about a peer meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// What is known already.
    Same(usize),
    /// Not heard of before.
    New,
    /// It contradicts what is known.
    Claimed(usize),
    /// Not heard of before; another was forgotten for it.
    Instead,
    /// Not known, and no room to remember it.
    TooMany,
}

impl Peers {
    /// A beacon was heard.
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
        // A timer of the old one finds the new one's not armed.
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

    /// This is what is known of it from now on. Another run may have opened its NIC in another way.
    pub(crate) fn replace(&mut self, at: usize, peer: Peer) {
        self.unindex(at as u32);
        self.index(at as u32, &peer);
        let record = &mut self.records[at];
        if (peer.address, peer.incarnation) != (record.peer.address, record.peer.incarnation) {
            (record.path, record.max_frame) = (Path::Unknown, u32::MAX);
        }
        (record.peer, record.mute) = (peer, false);
    }

    /// One without flows that is not being probed: of those the one that came first, so that a newcomer has time to ask for a flow.
    fn least_wanted(&self) -> Option<usize> {
        let mut around = (0..MOST).map(|n| (self.hand + n) % MOST);
        around.find(|&at| self.records[at].is_unused())
    }

    /// A flow with this one is open.
    pub(crate) fn begin(&mut self, at: usize) {
        self.records[at].flows += 1;
    }

    /// A flow with this one was open. It may have been forgotten, and learned again.
    pub(crate) fn end(&mut self, node: NodeId) {
        if let Some(at) = self.by_node(node) {
            self.records[at].flows = self.records[at].flows.saturating_sub(1);
        }
    }

    /// It is not known any more, until it is heard again.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(&at) = self.places.get(&node) else { return };
        self.unindex(at);
        let record = &mut self.records[at as usize];
        // A timer of its probes finds it not armed.
        (record.stay, record.armed) = (Stay::Vacant, Armed::default());
        self.vacant.push(at);
    }

    /// Never forget this one.
    pub(crate) fn keep(&mut self, node: NodeId) {
        let record = self.by_node(node).and_then(|at| self.records.get_mut(at));
        record.into_iter().for_each(|record| record.stay = Stay::Fixed);
    }

    /// The address of a peer that is in a static table and has not been heard
    /// of: it may not know us, and then it could not answer what we ask.
    pub(crate) fn unheard(&self, at: usize) -> Option<Address> {
        let peer = &self.records.get(at)?.peer;
        (peer.incarnation == UNHEARD).then_some(peer.address)
    }

    /// The node with this name; of several, the one that was started last, of those that answer.
    pub(crate) fn by_name(&self, name: Name) -> Option<usize> {
        let hash = self.hash(name);
        let named = self.named.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, at)| at as usize);
        let named = named.filter(|&at| self.records[at].peer.name == name);
        named.max_by_key(|&at| (!self.records[at].mute, self.records[at].peer.incarnation))
    }

    /// The node that said of itself that it is there.
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

    /// The peers that were probed, and what was found.
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

    /// All that were here before were talked to, and are gone.
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
