//! The peers of this side: connections by name, made when they are needed, and connections that peers have made.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;
use std::time::Instant;

use am_api::Connection;
use am_base::Link;
use slotmap::{SlotMap, new_key_type};

use crate::calls::CallKey;

new_key_type! {
    /// A peer.
    pub(crate) struct PeerKey;
}

/// A peer, and the calls that wait for room or for a connection.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) link: Link,
    pub(crate) queue: VecDeque<CallKey>,
    /// Tasks that wait until no call waits.
    pub(crate) waiting: Vec<Waker>,
}

impl PeerState {
    fn new(link: Link) -> PeerState {
        PeerState { link, queue: VecDeque::new(), waiting: vec![] }
    }

    /// The connection, if no call waits for room on it.
    #[inline]
    pub(crate) fn open(&mut self) -> Option<Connection> {
        self.link.connection().filter(|_| self.queue.is_empty())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    all: SlotMap<PeerKey, PeerState>,
    by_connection: HashMap<Connection, PeerKey>,
    by_name: HashMap<(String, String, u64), PeerKey>,
    /// How many calls wait, of all peers.
    pub(crate) queued: usize,
}

impl Peers {
    /// The peer of this name, which is connected when it is called: node, endpoint and tag.
    pub(crate) fn named(&mut self, name: (&str, &str, u64)) -> PeerKey {
        let (node, endpoint, tag) = name;
        *self
            .by_name
            .entry((node.into(), endpoint.into(), tag))
            .or_insert_with(|| self.all.insert(PeerState::new(Link::to(node, endpoint, tag))))
    }

    #[inline]
    pub(crate) fn get(&mut self, key: PeerKey) -> Option<&mut PeerState> {
        self.all.get_mut(key)
    }

    /// The tasks that wait for room anywhere.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waker> {
        self.all.values_mut().flat_map(|peer| std::mem::take(&mut peer.waiting)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn all_keys(&self) -> Vec<PeerKey> {
        self.all.keys().collect()
    }

    /// The peer's connection is this one from now on.
    pub(crate) fn connected(&mut self, key: PeerKey, connection: Connection) {
        self.by_connection.insert(connection, key);
    }

    /// The peer behind this connection. One that connected to this side gets an entry.
    pub(crate) fn of(&mut self, connection: Connection) -> PeerKey {
        *self.by_connection.entry(connection).or_insert_with(|| {
            let mut link = Link::default();
            link.adopt(connection);
            self.all.insert(PeerState::new(link))
        })
    }

    /// A connection has ended: returns the calls that waited for room on it, and the tasks that waited for them. A peer without a name is
    /// forgotten.
    pub(crate) fn ended(&mut self, connection: Connection, now: Instant) -> (VecDeque<CallKey>, Vec<Waker>) {
        let key = self.by_connection.remove(&connection).unwrap_or_default();
        let Some(peer) = self.all.get_mut(key) else { return Default::default() };
        let left = (std::mem::take(&mut peer.queue), std::mem::take(&mut peer.waiting));
        self.queued -= left.0.len();
        if peer.link.node().is_some() {
            peer.link.end(now);
        } else {
            self.all.remove(key);
        }
        left
    }
}
