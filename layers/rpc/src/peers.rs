//! The peers of this side: connections by name, made when they are needed, and connections that peers have made.

use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use am_api::{ConnectError, Connection, Name, Sender};
use am_base::Link;
use slotmap::SlotMap;

use crate::calls::PeerKey;
use crate::wakers::Wakers;

/// A peer that somebody has, so it is not forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldPeer {
    pub(crate) key: PeerKey,
    _held: Rc<()>,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    link: Link,
    /// Tasks that wait until no call waits for room.
    pub(crate) waiting: Wakers,
    /// Who has it shares this.
    held: Rc<()>,
}

impl PeerState {
    fn new(link: Link) -> PeerState {
        PeerState { link, waiting: Wakers::default(), held: Rc::default() }
    }

    fn hold(&self, key: PeerKey) -> HeldPeer {
        HeldPeer { key, _held: self.held.clone() }
    }

    /// Whether somebody has it, or it is connected.
    fn is_used(&self) -> bool {
        Rc::strong_count(&self.held) > 1 || self.link.connection().is_some()
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
}

impl Peers {
    /// The peer of this name, which is connected when it is called: node, endpoint and tag. `has_queued` says for which peers
    /// calls wait.
    pub(crate) fn named(&mut self, name: (&str, &str, u64), has_queued: impl Fn(PeerKey) -> bool) -> HeldPeer {
        if self.by_name.len() >= self.most_names {
            self.forget_unused(has_queued);
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
    fn forget_unused(&mut self, has_queued: impl Fn(PeerKey) -> bool) {
        self.by_name.retain(|_, key| {
            let is_used = self.all.get(*key).is_some_and(PeerState::is_used) || has_queued(*key);
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

    /// Its connection, open or in set-up.
    #[inline]
    pub(crate) fn connection(&self, key: PeerKey) -> Option<Connection> {
        self.all.get(key)?.link.connection()
    }

    /// Its connection; if it has none, one is begun, except in a pause.
    pub(crate) fn connect(&mut self, key: PeerKey, sender: &Sender) -> Result<Option<Connection>, ConnectError> {
        let Some(peer) = self.all.get_mut(key) else { return Ok(None) };
        let connection = peer.link.connect(sender, Instant::now())?;
        connection.into_iter().for_each(|connection| _ = self.by_connection.insert(connection, key));
        Ok(connection)
    }

    /// The tasks that wait for room at this peer.
    pub(crate) fn take_waiting(&mut self, key: PeerKey) -> Vec<Waker> {
        self.all.get_mut(key).map_or_else(Vec::new, |peer| peer.waiting.take().collect())
    }

    /// The tasks that wait for room anywhere.
    pub(crate) fn take_all_waiting(&mut self) -> Vec<Waker> {
        self.all.values_mut().flat_map(|peer| peer.waiting.take()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
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

    /// A connection has ended. A peer without a name is forgotten. Returns the peer that it was, and the tasks that waited for room at it.
    pub(crate) fn ended(&mut self, connection: Connection, now: Instant) -> (PeerKey, Vec<Waker>) {
        let key = self.by_connection.remove(&connection).unwrap_or_default();
        let waiting = self.take_waiting(key);
        match self.all.get_mut(key) {
            Some(peer) if peer.link.node().is_some() => peer.link.end(now),
            _ => _ = self.all.remove(key),
        }
        (key, waiting)
    }
}
