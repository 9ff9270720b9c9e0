//! The nodes that are known, by discovery or from a static table
//! (Directed Point's NART, §3.2).

use wire::control::{Incarnation, Name, NodeId};
use wire::{Address, Framing};

use crate::output::{FramingWhy, Peer};
use crate::time::Time;
use crate::timers::Armed;

/// What the network between a peer and us lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Not asked yet.
    Unknown,
    /// Being probed.
    Probing(Probing),
    /// Decided.
    Known(Framing, FramingWhy),
}

/// A round of probes under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// Number of the round.
    pub(crate) id: u32,
    /// Probes sent of the present step.
    pub(crate) tries: u8,
    /// Forged source addresses arrive; when we knew.
    pub(crate) forged_seen: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct PeerRecord {
    pub(crate) peer: Peer,
    pub(crate) path: Path,
    pub(crate) armed: Armed,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    records: Vec<PeerRecord>,
}

/// What news about a peer meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that matters.
    Same,
    /// Not known before.
    New,
    /// Known; it was started again.
    Restarted,
    /// Known in a later run: the news is old.
    Stale,
}

impl Peers {
    /// Learn or refresh.
    pub(crate) fn learn(&mut self, peer: Peer) -> News {
        let Some(record) = self.records.iter_mut().find(|record| record.peer.node == peer.node) else {
            self.records.push(PeerRecord { peer, path: Path::Unknown, armed: Armed::default() });
            return News::New;
        };
        let known = record.peer.incarnation;
        if peer.incarnation < known {
            return News::Stale;
        }
        if peer.address != record.peer.address {
            record.path = Path::Unknown;
        }
        record.peer = peer;
        if peer.incarnation > known && known != Incarnation(0) { News::Restarted } else { News::Same }
    }

    /// The node with this name; of several, the one that was started last.
    pub(crate) fn by_name(&self, name: Name) -> Option<usize> {
        let named = self.records.iter().enumerate().filter(|(_, record)| record.peer.name == name);
        named.max_by_key(|(_, record)| record.peer.incarnation).map(|(at, _)| at)
    }

    pub(crate) fn by_node(&self, node: NodeId) -> Option<usize> {
        self.records.iter().position(|record| record.peer.node == node)
    }

    pub(crate) fn by_address(&self, address: Address) -> Option<usize> {
        self.records.iter().position(|record| record.peer.address == address)
    }

    pub(crate) fn get(&mut self, at: usize) -> Option<&mut PeerRecord> {
        self.records.get_mut(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.records.iter().map(|record| &record.peer)
    }
}
