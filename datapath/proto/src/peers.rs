//! The known nodes, from discovery or from a static table (Directed Point's NART, §3.2), and the network paths to them,
//! which [`probe`](crate::probe) finds out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use am_wire::control::{Incarnation, Name, NodeId, Step};
use am_wire::{Address, Flow, Framing};

use crate::output::{FramingWhy, Member, Peer};
use crate::presence::{Presence, Stage};
use crate::rate_limit::Answers;
use crate::time::{Time, TimerState};

/// What the path to a peer lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    Unknown,
    Probing(Probing),
    Known(KnownPath),
}

/// How to send to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownPath {
    pub(crate) framing: Framing,
    pub(crate) why: FramingWhy,
    /// The longest frame that arrives.
    pub(crate) max_frame: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    pub(crate) id: u32,
    /// The question that it answers.
    pub(crate) question: Step,
    /// When this question was first asked.
    pub(crate) since: Time,
    /// Answers to the probes of this question that every network lets through.
    pub(crate) answered: u8,
    /// Rounds since the last of these answers.
    pub(crate) unanswered: u16,
    /// The length of a long probe.
    pub(crate) length: u32,
    /// The framing found so far, for the time when the length is known.
    pub(crate) framing: (Framing, FramingWhy),
}

impl Probing {
    pub(crate) fn new(question: Step) -> Probing {
        let framing = (Framing::Plain, FramingWhy::ForgedDropped);
        Probing { id: 0, question, since: Time(0), answered: 0, unanswered: 0, length: 0, framing }
    }
}

/// A run of a node.
pub(crate) type PeerRun = (NodeId, Incarnation);

/// A peer with open flows, on none of which anything arrived for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietPeer {
    /// When its last frame arrived, on any flow.
    pub(crate) last_received: Time,
    /// One of its open flows, to ask about.
    pub(crate) flow: Flow,
    /// Rounds in which it was asked since.
    pub(crate) rounds_asked: u32,
}

#[derive(Debug)]
pub(crate) struct PeerRecord {
    pub(crate) peer: Peer,
    pub(crate) path: Path,
    pub(crate) probe_timer: TimerState,
    /// The longest frame that the peer can receive, as far as it has said.
    pub(crate) max_frame: u32,
    /// Open flows with this peer.
    pub(crate) flows: u16,
    /// The peer did not answer a request for a flow.
    pub(crate) is_unresponsive: bool,
    /// Answers to this peer's beacons.
    pub(crate) answers: Answers,
    retention: Retention,
}

/// Whether a new peer may take this record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    /// Yes, if this is the least wanted peer.
    Replaceable,
    /// No: the peer is in a static table. Nothing on the network makes this node forget it.
    Static,
    /// The peer was removed. The next new one takes this place.
    Vacant,
}

/// The most peers to remember, so that a flood of forged beacons fills no memory and takes no time to search. A new
/// peer replaces another. If it were ignored instead, the flood would cut off all nodes that this one has yet to meet.
/// A forgotten peer that is wanted again is searched for again.
pub const MAX_PEERS: usize = 1 << 14;

/// The table grows by this many records. Doubling would leave up to half of it unused.
const GROWTH: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) records: Vec<PeerRecord>,
    /// Which of them are members, by the same index. `None` unless members are watched.
    pub(crate) presences: Option<Vec<Presence>>,
    /// The index in `records` by node. Other nodes choose their ids, so the hash is keyed.
    by_id: HashMap<NodeId, u32>,
    /// The same by a hash of the name. Several nodes may claim one name.
    by_name_hash: BTreeSet<(u32, u32)>,
    hasher: RandomState,
    /// The index by probe number, possibly out of date.
    by_probe_id: BTreeMap<u32, u32>,
    /// At this size it loses its outdated entries.
    max_probe_ids: usize,
    /// Where the search for a peer to forget continues.
    cursor: usize,
    /// Indices of removed records.
    vacant: Vec<u32>,
}

/// The incarnation of a peer that has not named its own.
pub(crate) const UNKNOWN_RUN: Incarnation = Incarnation(0);

/// What a beacon changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeaconNews {
    /// Nothing.
    Same(usize),
    /// The node was unknown.
    New,
    /// The beacon contradicts what is known.
    Conflict(usize),
    /// The node was unknown, and another was forgotten for it, which may have been a member.
    Replaced(Option<Member>),
    /// The node is unknown, and there is no room to remember it.
    TooMany,
}

impl Peers {
    /// Record what a beacon says.
    pub(crate) fn learn(&mut self, peer: Peer) -> BeaconNews {
        let Some(at) = self.by_node(peer.node) else { return self.add(peer) };
        match self.records[at].peer {
            known if known == peer => BeaconNews::Same(at),
            Peer { incarnation: UNKNOWN_RUN, .. } => {
                self.replace(at, peer);
                BeaconNews::New
            }
            _ => BeaconNews::Conflict(at),
        }
    }

    fn add(&mut self, peer: Peer) -> BeaconNews {
        let record = PeerRecord {
            peer,
            path: Path::Unknown,
            probe_timer: TimerState::default(),
            max_frame: u32::MAX,
            flows: 0,
            is_unresponsive: false,
            answers: Answers::default(),
            retention: Retention::Replaceable,
        };
        if let Some(at) = self.vacant.pop() {
            self.index(at, &peer);
            self.records[at as usize] = record;
            self.set_presence(at as usize, Presence::default());
            return BeaconNews::New;
        }
        if self.records.len() < MAX_PEERS {
            if self.records.len() == self.records.capacity() {
                self.records.reserve_exact(GROWTH);
            }
            self.index(self.records.len() as u32, &peer);
            self.records.push(record);
            self.presences.iter_mut().for_each(|presences| presences.push(Presence::default()));
            return BeaconNews::New;
        }
        // A peer without flows that is not being probed. The search starts at the oldest, so that a new peer has time to
        // ask for a flow.
        let mut around = (0..MAX_PEERS).map(|n| (self.cursor + n) % MAX_PEERS);
        let Some(at) = around.find(|&at| self.records[at].is_replaceable()) else { return BeaconNews::TooMany };
        self.cursor = at + 1;
        self.unindex(at as u32);
        self.index(at as u32, &peer);
        let forgotten = self.reported_member(at);
        self.set_presence(at, Presence::default());
        // A timer of the replaced peer does not match the new one's timer, and is ignored.
        self.records[at] = record;
        BeaconNews::Replaced(forgotten)
    }

    fn index(&mut self, at: u32, peer: &Peer) {
        self.by_id.insert(peer.node, at);
        self.by_name_hash.insert((self.hash(peer.name), at));
    }

    fn unindex(&mut self, at: u32) {
        let Peer { node, name, .. } = self.records[at as usize].peer;
        self.by_id.remove(&node);
        self.by_name_hash.remove(&(self.hash(name), at));
    }

    /// Replace what is known of a peer. A new run may have opened its NIC in another way, so the path is probed again.
    pub(crate) fn replace(&mut self, at: usize, peer: Peer) {
        self.unindex(at as u32);
        self.index(at as u32, &peer);
        let record = &mut self.records[at];
        if (peer.address, peer.incarnation) != (record.peer.address, record.peer.incarnation) {
            (record.path, record.max_frame) = (Path::Unknown, u32::MAX);
        }
        (record.peer, record.is_unresponsive) = (peer, false);
    }

    /// An open flow with this node ended. The peer may have been forgotten meanwhile, and learned again.
    pub(crate) fn remove_flow(&mut self, node: NodeId) {
        if let Some(at) = self.by_node(node) {
            self.records[at].flows = self.records[at].flows.saturating_sub(1);
        }
    }

    /// Forget this node until its next beacon.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let Some(&at) = self.by_id.get(&node) else { return };
        self.unindex(at);
        let record = &mut self.records[at as usize];
        // A probe timer that is still queued is ignored.
        (record.retention, record.probe_timer) = (Retention::Vacant, TimerState::default());
        self.vacant.push(at);
    }

    /// Forget this node if there is no room.
    pub(crate) fn make_replaceable(&mut self, node: NodeId) {
        if let Some(at) = self.by_node(node) {
            self.records[at].retention = Retention::Replaceable;
        }
    }

    /// As [`Peers::remove`], unless the node is in a static table.
    pub(crate) fn remove_unless_static(&mut self, node: NodeId) {
        if self.by_node(node).is_some_and(|at| self.records[at].retention != Retention::Static) {
            self.remove(node);
        }
    }

    /// Never forget this node.
    pub(crate) fn make_static(&mut self, node: NodeId) {
        if let Some(at) = self.by_node(node) {
            self.records[at].retention = Retention::Static;
        }
    }

    /// The address of a peer in a static table from which no beacon arrived yet. It may not know this node, and then
    /// could not answer a request.
    pub(crate) fn address_without_beacon(&self, at: usize) -> Option<Address> {
        let peer = &self.records[at].peer;
        (peer.incarnation == UNKNOWN_RUN).then_some(peer.address)
    }

    /// The node with this name. If several have it, prefer one that answers, and of these the latest run.
    pub(crate) fn by_name(&self, name: Name) -> Option<usize> {
        let hash = self.hash(name);
        let named = self.by_name_hash.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, at)| at as usize);
        let named = named.filter(|&at| self.records[at].peer.name == name);
        named.max_by_key(|&at| (!self.records[at].is_unresponsive, self.records[at].peer.incarnation))
    }

    /// The node that announced this address.
    pub(crate) fn by_address(&self, address: Address) -> Option<NodeId> {
        let its = |record: &&PeerRecord| record.retention == Retention::Replaceable && record.peer.address == address;
        self.records.iter().find(its).map(|record| record.peer.node)
    }

    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn by_node(&self, node: NodeId) -> Option<usize> {
        self.by_id.get(&node).map(|&at| at as usize)
    }

    /// The node that is being probed with this number.
    pub(crate) fn by_probe(&self, id: u32) -> Option<usize> {
        let at = *self.by_probe_id.get(&id)? as usize;
        self.records[at].is_probed_with(id).then_some(at)
    }

    /// The member that is asked with this number whether it is still there.
    pub(crate) fn by_question(&self, id: u32) -> Option<usize> {
        let at = *self.by_probe_id.get(&id)? as usize;
        self.presence(at).is_asked_with(id).then_some(at)
    }

    /// A node is probed with this number from now on, or asked whether it is still there.
    pub(crate) fn set_probe(&mut self, at: usize, id: u32) {
        if self.by_probe_id.len() >= self.max_probe_ids.max(GROWTH) {
            let mut all = std::mem::take(&mut self.by_probe_id);
            all.retain(|&id, &mut at| {
                self.records[at as usize].is_probed_with(id) || self.presence(at as usize).is_asked_with(id)
            });
            self.max_probe_ids = 2 * all.len();
            self.by_probe_id = all;
        }
        self.by_probe_id.insert(id, at as u32);
    }

    pub(crate) fn hash(&self, name: Name) -> u32 {
        self.hasher.hash_one(name) as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerRecord> {
        self.records.iter().filter(|record| record.retention != Retention::Vacant)
    }
}

impl PeerRecord {
    fn is_replaceable(&self) -> bool {
        self.flows == 0 && self.retention == Retention::Replaceable && !matches!(self.path, Path::Probing(_))
    }

    fn is_probed_with(&self, id: u32) -> bool {
        matches!(&self.path, Path::Probing(probing) if probing.id == id)
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.retention == Retention::Vacant
    }

    /// The peer has named its run, so a beacon of it arrived.
    pub(crate) fn has_beaconed(&self) -> bool {
        self.peer.incarnation != UNKNOWN_RUN && !self.is_vacant()
    }
}

impl Peers {
    pub(crate) fn presence(&self, at: usize) -> Presence {
        self.presences.as_ref().map_or(Presence::default(), |presences| presences[at])
    }

    /// `None` if members are not watched.
    pub(crate) fn presence_mut(&mut self, at: usize) -> Option<&mut Presence> {
        self.presences.as_mut().map(|presences| &mut presences[at])
    }

    pub(crate) fn set_presence(&mut self, at: usize, presence: Presence) {
        self.presence_mut(at).into_iter().for_each(|place| *place = presence);
    }

    /// This peer as a member, if frames to it have this many bytes at most.
    pub(crate) fn member(&self, at: usize, own_limit: usize) -> Member {
        let record = &self.records[at];
        let (longest, framing) = match record.path {
            Path::Known(path) => (path.max_frame, Some(path.framing)),
            _ => (u32::MAX, None),
        };
        let max_frame = longest.min(record.max_frame).min(own_limit as u32) as usize;
        // While the path is probed again, what was known of it counts.
        let framing = framing.or(self.presence(at).reported.and_then(|(.., framing)| framing));
        Member { peer: record.peer, max_frame, framing }
    }

    /// This member as the last event reported it.
    pub(crate) fn reported_member(&self, at: usize) -> Option<Member> {
        let Presence { stage, reported, .. } = self.presence(at);
        let (address, max_frame, framing) = reported.filter(|_| stage == Stage::Present)?;
        Some(Member { peer: Peer { address, ..self.records[at].peer }, max_frame: max_frame as usize, framing })
    }
}

#[cfg(test)]
mod tests;
