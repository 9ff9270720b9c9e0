//! The peers of this side: connections by name, made when they are needed, and connections that peers have made.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use am_api::{Connection, Name};
use am_base::Link;
use slotmap::{SlotMap, new_key_type};

use crate::calls::CallKey;
use crate::wakers::Wakers;

new_key_type! {
    /// A peer.
    pub(crate) struct PeerKey;
}

/// A peer that somebody has, so it is not forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldPeer {
    pub(crate) key: PeerKey,
    _held: Rc<()>,
}

/// A peer, and the calls that wait for room or for a connection.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) link: Link,
    pub(crate) queue: VecDeque<CallKey>,
    /// Tasks that wait until no call waits.
    pub(crate) waiting: Wakers,
    /// Who has it shares this.
    held: Rc<()>,
}

impl PeerState {
    fn new(link: Link) -> PeerState {
        PeerState { link, queue: VecDeque::new(), waiting: Wakers::default(), held: Rc::default() }
    }

    fn hold(&self, key: PeerKey) -> HeldPeer {
        HeldPeer { key, _held: self.held.clone() }
    }

    /// Whether somebody has it, or it is connected, or a call waits for that.
    fn is_used(&self) -> bool {
        Rc::strong_count(&self.held) > 1 || self.link.connection().is_some() || !self.queue.is_empty()
    }

    /// The connection, if no call waits for room on it.
    #[inline]
    pub(crate) fn open(&mut self) -> Option<Connection> {
        self.link.connection().filter(|_| self.queue.is_empty())
    }
}

/// Up to so many names nobody looks for those that are not used.
const FEW_NAMES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    all: SlotMap<PeerKey, PeerState>,
    by_connection: HashMap<Connection, PeerKey>,
    by_name: HashMap<(String, String, u64), PeerKey>,
    /// With so many names, those are forgotten that nobody uses.
    most_names: usize,
    /// How many calls wait, of all peers.
    pub(crate) queued: usize,
}

impl Peers {
    /// The peer of this name, which is connected when it is called: node, endpoint and tag.
    pub(crate) fn named(&mut self, name: (&str, &str, u64)) -> HeldPeer {
        if self.by_name.len() >= self.most_names {
            self.forget_unused();
        }
        let (node, endpoint, tag) = name;
        let entry = self.by_name.entry((node.into(), endpoint.into(), tag));
        let key = *entry.or_insert_with(|| self.all.insert(PeerState::new(Link::to(node, endpoint, tag))));
        self.hold(key)
    }

    fn hold(&self, key: PeerKey) -> HeldPeer {
        self.all.get(key).map_or_else(HeldPeer::default, |peer| peer.hold(key))
    }

    /// Forget the names that nobody uses, and look again once twice as many are known: a program may call each of its callers by name.
    fn forget_unused(&mut self) {
        self.by_name.retain(|_, key| {
            let is_used = self.all.get(*key).is_some_and(PeerState::is_used);
            if !is_used {
                self.all.remove(*key);
            }
            is_used
        });
        self.most_names = (2 * self.by_name.len()).max(FEW_NAMES);
    }

    /// The node of this peer, of one that connected to this side its connection.
    pub(crate) fn node_of(&self, key: PeerKey) -> Option<Result<Name, Connection>> {
        let link = &self.all.get(key)?.link;
        match link.node() {
            Some(node) => Name::new(node).map(Ok),
            None => link.connection().map(Err),
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, key: PeerKey) -> Option<&mut PeerState> {
        self.all.get_mut(key)
    }

    /// The tasks that wait for room anywhere.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waker> {
        self.all.values_mut().flat_map(|peer| peer.waiting.take()).collect()
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
    pub(crate) fn of(&mut self, connection: Connection) -> HeldPeer {
        let key = *self.by_connection.entry(connection).or_insert_with(|| {
            let mut link = Link::default();
            link.adopt(connection);
            self.all.insert(PeerState::new(link))
        });
        self.hold(key)
    }

    /// A connection has ended: returns the calls that waited for room on it, and the tasks that waited for them. A peer without a name is
    /// forgotten.
    pub(crate) fn ended(&mut self, connection: Connection, now: Instant) -> (VecDeque<CallKey>, Vec<Waker>) {
        let key = self.by_connection.remove(&connection).unwrap_or_default();
        let Some(peer) = self.all.get_mut(key) else { return Default::default() };
        let left = (std::mem::take(&mut peer.queue), peer.waiting.take().collect());
        self.queued -= left.0.len();
        if peer.link.node().is_some() {
            peer.link.end(now);
        } else {
            self.all.remove(key);
        }
        left
    }
}
