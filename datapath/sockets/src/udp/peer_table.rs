//! The peer table: the socket addresses to which broadcasts go, and the link address behind each.
//!
//! An entry is a socket address. Behind it are the link addresses from which frames arrived through it: usually one, or more
//! if the peer is a switch with several nodes, or has restarted. A link address belongs to one entry. Learned entries expire;
//! added ones stay.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_wire::{Address, AddressSet};
use rustix::net::{SocketAddrAny, addr::SocketAddrArg};
use slotmap::{SlotMap, new_key_type};

use super::out_of_band::SharedPeers;
use super::unanswered::Unanswered;

/// The most peer addresses, added or learned, and the most learned link addresses. A node with several transports knows at
/// most this many peers.
pub(super) const MAX_PEERS: usize = 16_384;

/// The most link addresses behind one socket address: a transport's own, and those that it can add. A further one replaces
/// the earliest.
const MAX_LINKS: usize = 1 + AddressSet::MAX;

/// A learned entry that has been silent for this long is removed. A connected peer sends more often than that.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A peer from which nothing was received for this long, two beacons, may have moved. In a full table its entry may
/// be reused.
const MOVE_TIMEOUT: Duration = Duration::from_secs(11);

new_key_type! {
    /// The key of an entry. It becomes invalid when the entry is removed, so queued frames for a removed peer do not go
    /// to the next one in its slot.
    pub(crate) struct PeerKey;
}

/// The result of learning an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The link address is known at this socket.
    Known,
    /// The link address is new.
    New,
    /// The peer has moved from another socket.
    Moved,
    /// The table is full.
    Full,
    /// Not learned: the link address belongs to an added entry, and the sender's socket was not added.
    TakenByAdded,
    /// Not learned: a frame with this link address has just arrived from another socket. A link address belongs to one run of
    /// a node, which is behind one socket.
    Elsewhere,
}

#[derive(Debug)]
pub(crate) struct PeerTable {
    all: SlotMap<PeerKey, PeerEntry>,
    capacity: usize,
    by_socket: HashMap<SocketAddr, PeerKey>,
    /// A tree, because each sent frame reads it, and it usually has few entries.
    by_address: BTreeMap<Address, Link>,
    /// The earliest time at which a frame last arrived from any learned link address, or before that. While it is recent, the
    /// search for silent link addresses is skipped.
    earliest: Instant,
    /// The keys of `by_socket`.
    shared: SharedPeers,
    pub(super) unanswered: Unanswered<PeerKey>,
}

/// The entry that a link address is behind.
#[derive(Clone, Copy, Debug)]
struct Link {
    key: PeerKey,
    last_received: Instant,
}

#[derive(Debug)]
struct PeerEntry {
    at: SocketAddr,
    /// The address as the system call takes it.
    raw: SocketAddrAny,
    /// The link addresses behind it, the earliest first.
    links: VecDeque<Address>,
    is_added: bool,
}

impl PeerTable {
    /// A table for `capacity` entries.
    pub(crate) fn new(capacity: usize, now: Instant) -> PeerTable {
        let (by_socket, by_address) = (HashMap::new(), BTreeMap::new());
        let (shared, unanswered) = (SharedPeers::default(), Unanswered::default());
        PeerTable { all: SlotMap::with_key(), capacity, by_socket, by_address, earliest: now, shared, unanswered }
    }

    /// The socket addresses of the entries, for another thread.
    pub(crate) fn shared(&self) -> SharedPeers {
        self.shared.clone()
    }

    fn share(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Find the entry of a link address.
    #[inline]
    pub(crate) fn find(&self, address: Address) -> Option<PeerKey> {
        self.by_address.get(&address).map(|link| link.key)
    }

    /// The socket address of an entry; `None` if the entry was removed.
    #[inline]
    pub(crate) fn get(&self, key: PeerKey) -> Option<&SocketAddrAny> {
        self.all.get(key).map(|entry| &entry.raw)
    }

    /// All socket addresses.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PeerKey, &SocketAddrAny)> {
        self.all.iter().map(|(key, entry)| (key, &entry.raw))
    }

    /// Add an entry that stays until it is removed. `false` if the table is full.
    pub(crate) fn add(&mut self, at: SocketAddr) -> bool {
        let now = Instant::now();
        let Some(key) = self.by_socket.get(&at).copied().or_else(|| self.insert(at, now)) else { return false };
        self.all[key].is_added = true;
        self.unanswered.insert(key, now);
        true
    }

    /// Remove an entry.
    pub(crate) fn remove(&mut self, at: SocketAddr) {
        if let Some(key) = self.by_socket.get(&at) {
            self.remove_key(*key);
        }
    }

    /// Forget learned link addresses that have been silent for too long, and learned entries without link addresses.
    pub(crate) fn remove_silent(&mut self, now: Instant) {
        let silence = if self.is_full() { MOVE_TIMEOUT } else { SILENCE_TIMEOUT };
        let is_silent = |last_received: Instant| now.saturating_duration_since(last_received) >= silence;
        if !is_silent(self.earliest) {
            return;
        }
        let PeerTable { all, by_socket, by_address, earliest, shared, .. } = self;
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        *earliest = now;
        all.retain(|_, entry| {
            if entry.is_added {
                return true;
            }
            entry.links.retain(|address| {
                let last_received = by_address.get(address).map(|link| link.last_received);
                let is_kept = last_received.is_some_and(|last| !is_silent(last));
                match last_received.filter(|_| is_kept) {
                    Some(last) => *earliest = last.min(*earliest),
                    None => _ = by_address.remove(address),
                }
                is_kept
            });
            if entry.links.is_empty() {
                by_socket.remove(&entry.at);
                shared.remove(&entry.at);
            }
            !entry.links.is_empty()
        });
    }

    /// Whether there may be no room for another entry or link address.
    fn is_full(&self) -> bool {
        self.all.len() >= self.capacity || self.by_address.len() >= self.capacity
    }

    /// A frame from this link address has arrived from this socket.
    pub(crate) fn learn(&mut self, address: Address, from: SocketAddr, now: Instant) -> Learned {
        let known = self.by_address.get_mut(&address);
        if let Some(link) = known
            && self.all.get(link.key).is_some_and(|entry| entry.at == from)
        {
            link.last_received = now;
            self.unanswered.remove(link.key);
            return Learned::Known;
        }
        let known = self.by_address.get(&address).copied();
        let here = self.by_socket.get(&from).copied();
        let is_added_entry = |key: Option<PeerKey>| key.is_some_and(|key| self.all[key].is_added);
        let is_recent = |link: Link| now.saturating_duration_since(link.last_received) < MOVE_TIMEOUT;
        if is_added_entry(known.map(|link| link.key)) && !is_added_entry(here) {
            return Learned::TakenByAdded;
        }
        if !is_added_entry(here) && known.is_some_and(is_recent) {
            return Learned::Elsewhere;
        }
        let Some(here) = self.entry_for(here, from, now) else { return Learned::Full };
        // The link address may have been removed to make room.
        if self.by_address.contains_key(&address) {
            self.unbind(address);
        }
        self.bind(here, address, now);
        self.unanswered.remove(here);
        if known.is_some() { Learned::Moved } else { Learned::New }
    }

    /// The entry to which a new link address is bound, if there is room for both.
    fn entry_for(&mut self, here: Option<PeerKey>, from: SocketAddr, now: Instant) -> Option<PeerKey> {
        let has_own_room = |entry: &PeerEntry| entry.is_added || entry.links.len() == MAX_LINKS;
        if self.by_address.len() >= self.capacity && !here.is_some_and(|key| has_own_room(&self.all[key])) {
            self.remove_silent(now);
            if self.by_address.len() >= self.capacity {
                return None;
            }
        }
        // The entry may have been removed because it was silent.
        self.by_socket.get(&from).copied().or_else(|| self.insert(from, now))
    }

    /// Put a link address behind an entry.
    fn bind(&mut self, key: PeerKey, address: Address, now: Instant) {
        let links = &mut self.all[key].links;
        if links.len() == MAX_LINKS
            && let Some(earliest) = links.pop_front()
        {
            self.by_address.remove(&earliest);
        }
        links.push_back(address);
        self.by_address.insert(address, Link { key, last_received: now });
    }

    /// Remove a link address from its entry. A learned entry is removed with its last link address.
    fn unbind(&mut self, address: Address) {
        let Some(link) = self.by_address.remove(&address) else { return };
        let Some(entry) = self.all.get_mut(link.key) else { return };
        entry.links.retain(|other| *other != address);
        if entry.links.is_empty() && !entry.is_added {
            self.remove_key(link.key);
        }
    }

    fn remove_key(&mut self, key: PeerKey) {
        if let Some(entry) = self.all.remove(key) {
            entry.links.iter().for_each(|address| _ = self.by_address.remove(address));
            self.by_socket.remove(&entry.at);
            self.unanswered.remove(key);
            self.share().remove(&entry.at);
        }
    }

    /// Make a new entry, if there is room.
    fn insert(&mut self, at: SocketAddr, now: Instant) -> Option<PeerKey> {
        self.remove_silent(now);
        if self.all.len() >= self.capacity {
            return None;
        }
        let entry = PeerEntry { at, raw: at.as_any(), links: VecDeque::new(), is_added: false };
        let key = self.all.insert(entry);
        self.by_socket.insert(at, key);
        self.share().insert(at);
        Some(key)
    }
}

/// The pause after a flood, for each peer but one: this allows 5000 datagrams a second.
const PAUSE_PER_PEER: Duration = Duration::from_micros(200);
/// The burst: 65536 datagrams. This is enough for one of 256 nodes to probe the paths to all others.
const MAX_BURST: Duration = Duration::from_micros(200 * 65_536);

/// Limits the flooding of frames to unknown addresses, with a token bucket. Such a frame goes to every peer, as a switch
/// would send it. Floods are needed: they find a peer of a static table, and a frame to an address that no node has tests
/// which framing reaches a peer. But a host that forges small beacons makes this node answer unknown addresses, and each
/// answer would be a datagram to every peer.
#[derive(Debug)]
pub(super) struct FloodLimiter {
    /// When the pauses of all earlier floods end.
    paid_until: Instant,
}

impl FloodLimiter {
    pub(super) fn new(now: Instant) -> FloodLimiter {
        FloodLimiter { paid_until: now }
    }

    /// Whether one more frame may go to this many peers.
    #[cold]
    pub(super) fn may_flood(&mut self, now: Instant, places: usize) -> bool {
        let paid = self.paid_until.max(now) + PAUSE_PER_PEER * places.saturating_sub(1) as u32;
        let may_go = paid <= now + MAX_BURST;
        if may_go {
            self.paid_until = paid;
        }
        may_go
    }
}

#[cfg(test)]
mod tests;
