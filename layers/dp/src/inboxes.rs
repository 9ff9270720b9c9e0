//! The inboxes of all endpoints: the state that the node's handlers work on.

use std::collections::BTreeSet;

use am_api::{Connection, ConnectionChange, ConnectionEvent, Message, ReturnReason};

use crate::inbox::{Inbox, SHORT};
use crate::point::PointId;
use crate::{Dpid, Nid, Nodes};

/// The most nodes in [`Inboxes::seen`]. It is limited because peers choose their NIDs.
const MAX_SEEN: usize = 4096;

fn note_seen(seen: &mut BTreeSet<Nid>, nid: Nid) {
    if seen.len() < MAX_SEEN {
        seen.insert(nid);
    }
}

/// The inboxes by the index of their endpoint, and lists of those that have pending events.
pub(crate) struct Inboxes<M> {
    list: Vec<Option<Inbox<M>>>,
    nodes: Nodes,
    /// The nodes of which this process has met a process.
    seen: BTreeSet<Nid>,
    /// One of the two lists below is not empty.
    pub(crate) has_news: bool,
    /// Endpoints that may have become readable.
    pub(crate) readable: Vec<PointId>,
    /// Endpoints with a connection that opened or ended, or with refusals.
    pub(crate) special: Vec<PointId>,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Inboxes<M> {
    pub(crate) fn new(nodes: Nodes) -> Self {
        let (list, seen, readable, special) = Default::default();
        Inboxes { list, nodes, seen, has_news: false, readable, special }
    }

    pub(crate) fn insert(&mut self, id: PointId, inbox: Inbox<M>) {
        let at = id.index as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        self.list[at] = Some(inbox);
    }

    pub(crate) fn remove(&mut self, id: PointId) {
        if self.get(id).is_some() {
            self.list[id.index as usize] = None;
        }
    }

    pub(crate) fn get(&self, id: PointId) -> Option<&Inbox<M>> {
        self.list.get(id.index as usize)?.as_ref().filter(|inbox| inbox.serial == id.serial)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PointId) -> Option<&mut Inbox<M>> {
        self.list.get_mut(id.index as usize)?.as_mut().filter(|inbox| inbox.serial == id.serial)
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Inbox<M>> {
        self.list.iter_mut().flatten()
    }

    /// A process of this node was seen.
    pub(crate) fn note_seen(&mut self, nid: Nid) {
        note_seen(&mut self.seen, nid);
    }

    /// Whether a process of this node was seen.
    pub(crate) fn was_seen(&self, nid: Nid) -> bool {
        self.seen.contains(&nid)
    }

    /// A message for the endpoint of this index.
    #[inline]
    pub(crate) fn on_message<S>(&mut self, index: usize, message: &Message<'_, S>) {
        let Some(Some(inbox)) = self.list.get_mut(index) else { return };
        let id = PointId { index: index as u32, serial: inbox.serial };
        let is_plain = message.handler() == SHORT && inbox.on_short(message.payload());
        let is_special = !is_plain && {
            inbox.on_special(message);
            inbox.has_refusals()
        };
        if !std::mem::replace(&mut inbox.is_listed, true) {
            self.readable.push(id);
            self.has_news = true;
        }
        if is_special {
            self.note_special(id);
        }
    }

    /// The endpoint may have become readable.
    pub(crate) fn note_readable(&mut self, id: PointId) {
        let Some(inbox) = self.get_mut(id) else { return };
        if !std::mem::replace(&mut inbox.is_listed, true) {
            self.readable.push(id);
            self.has_news = true;
        }
    }

    #[cold]
    pub(crate) fn note_special(&mut self, id: PointId) {
        self.special.push(id);
        self.has_news = true;
    }

    /// A connection of the endpoint of this index opened or ended.
    pub(crate) fn on_connection<S>(&mut self, index: usize, event: &ConnectionEvent<'_, S>) {
        let peer = (self.nodes.nid_of(event.peer.node.as_str()), Dpid::of_endpoint(event.peer.endpoint.as_str()));
        let peer = peer.0.zip(peer.1);
        let Some(Some(inbox)) = self.list.get_mut(index) else { return };
        match (event.change, peer) {
            (ConnectionChange::Accepted, Some(peer)) => {
                inbox.on_accepted(event.connection, peer, event.peer.node);
                note_seen(&mut self.seen, peer.0);
            }
            (ConnectionChange::Ended(reason), _) => {
                let has_died = matches!(reason, ReturnReason::Unreachable | ReturnReason::Restarted);
                inbox.on_ended(event.connection, peer.filter(|_| has_died));
            }
            _ => return,
        }
        let id = PointId { index: index as u32, serial: inbox.serial };
        self.note_special(id);
    }

    /// Take the refusals that this endpoint has to send. Returns them, and the size of its pool.
    pub(crate) fn take_refusals_to_send(&mut self, id: PointId) -> (Vec<(Connection, usize)>, usize) {
        self.get_mut(id).map_or((vec![], 0), |inbox| (std::mem::take(&mut inbox.refusals_to_send), inbox.pool.size()))
    }
}
