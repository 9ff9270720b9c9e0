//! The peer table: the socket addresses to which broadcasts go, and the link address behind each.
//!
//! Each entry is a socket address, and one transport uses each socket. So an entry has one link address at a time,
//! and a link address one entry. Learned entries expire; added ones stay.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use am_wire::Address;
use rustix::net::{SocketAddrAny, addr::SocketAddrArg};
use slotmap::{SlotMap, new_key_type};

/// The most peer addresses, added or learned: as many as the peers that a node with several transports knows.
pub(super) const MAX_PEERS: usize = 16_384;

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
    /// As before.
    Known,
    /// The link address is new, or the socket had another one.
    New,
    /// The peer has moved from another socket.
    Moved,
    /// The table is full.
    Full,
    /// Refused: the link address belongs to an added entry, and the sender's socket was not added.
    TakenByAdded,
    /// Refused: the link address was received from another socket a moment ago. A link address belongs to one run of a
    /// node, which has one socket.
    Elsewhere,
}

#[derive(Debug)]
pub(crate) struct PeerTable {
    all: SlotMap<PeerKey, PeerEntry>,
    capacity: usize,
    by_socket: HashMap<SocketAddr, PeerKey>,
    /// A tree, because each sent frame reads it, and it usually has few entries.
    by_address: BTreeMap<Address, PeerKey>,
    /// No learned entry was received from earlier than this. So a search for silent ones is rarely in vain.
    earliest: Instant,
}

#[derive(Debug)]
struct PeerEntry {
    at: SocketAddr,
    /// The address in the form of the system call.
    raw: SocketAddrAny,
    address: Option<Address>,
    is_added: bool,
    last_received: Instant,
}

impl PeerTable {
    /// A table for `capacity` entries.
    pub(crate) fn new(capacity: usize, now: Instant) -> PeerTable {
        let (by_socket, by_address) = (HashMap::new(), BTreeMap::new());
        PeerTable { all: SlotMap::with_key(), capacity, by_socket, by_address, earliest: now }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Find the entry of a link address.
    #[inline]
    pub(crate) fn find(&self, address: Address) -> Option<PeerKey> {
        self.by_address.get(&address).copied()
    }

    /// The socket address of an entry; `None` if the entry was removed.
    #[inline]
    pub(crate) fn get(&self, key: PeerKey) -> Option<&SocketAddrAny> {
        self.all.get(key).map(|entry| &entry.raw)
    }

    /// All socket addresses.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SocketAddrAny> {
        self.all.values().map(|entry| &entry.raw)
    }

    /// Add an entry that stays until it is removed. False if the table is full.
    pub(crate) fn add(&mut self, at: SocketAddr) -> bool {
        let key = self.by_socket.get(&at).copied().or_else(|| self.insert(at, Instant::now()));
        let entry = key.and_then(|key| self.all.get_mut(key));
        entry.map(|entry| entry.is_added = true).is_some()
    }

    /// Remove an entry.
    pub(crate) fn remove(&mut self, at: SocketAddr) {
        if let Some(key) = self.by_socket.get(&at) {
            self.remove_key(*key);
        }
    }

    /// Remove learned entries that have been silent for too long.
    pub(crate) fn remove_silent(&mut self, now: Instant) {
        let silence = if self.all.len() == self.capacity { MOVE_TIMEOUT } else { SILENCE_TIMEOUT };
        let is_silent = |last_received: Instant| now.saturating_duration_since(last_received) >= silence;
        if !is_silent(self.earliest) {
            return;
        }
        let silent: Vec<PeerKey> =
            self.learned_entries().filter(|(_, last_received)| is_silent(*last_received)).map(|(key, _)| key).collect();
        silent.into_iter().for_each(|key| self.remove_key(key));
        self.earliest = self.learned_entries().map(|(_, last_received)| last_received).min().unwrap_or(now);
    }

    /// The learned entries, and when each was last received from.
    fn learned_entries(&self) -> impl Iterator<Item = (PeerKey, Instant)> {
        self.all.iter().filter(|(_, entry)| !entry.is_added).map(|(key, entry)| (key, entry.last_received))
    }

    /// A frame from this link address has arrived from this socket.
    pub(crate) fn learn(&mut self, address: Address, from: SocketAddr, now: Instant) -> Learned {
        let known = self.find(address);
        if let Some(entry) = known.and_then(|key| self.all.get_mut(key))
            && entry.at == from
        {
            entry.last_received = now;
            return Learned::Known;
        }
        let here = self.by_socket.get(&from).copied();
        let is_added_entry = |key: Option<PeerKey>| key.is_some_and(|key| self.all[key].is_added);
        let is_recent = |key: PeerKey| now.saturating_duration_since(self.all[key].last_received) < MOVE_TIMEOUT;
        if is_added_entry(known) && !is_added_entry(here) {
            return Learned::TakenByAdded;
        }
        if !is_added_entry(here) && known.is_some_and(is_recent) {
            return Learned::Elsewhere;
        }
        let Some(here) = here.or_else(|| self.insert(from, now)) else { return Learned::Full };
        // It may have been removed to make room.
        if let Some(known) = known.filter(|known| self.all.contains_key(*known)) {
            self.detach(known);
        }
        self.bind(here, address, now);
        if known.is_some() { Learned::Moved } else { Learned::New }
    }

    /// Set the link address of an entry.
    fn bind(&mut self, key: PeerKey, address: Address, now: Instant) {
        self.unbind(key);
        let entry = &mut self.all[key];
        (entry.address, entry.last_received) = (Some(address), now);
        self.by_address.insert(address, key);
    }

    fn unbind(&mut self, key: PeerKey) {
        if let Some(address) = self.all[key].address.take() {
            self.by_address.remove(&address);
        }
    }

    /// Take the link address from an entry. A learned entry is removed with it.
    fn detach(&mut self, key: PeerKey) {
        if self.all[key].is_added { self.unbind(key) } else { self.remove_key(key) }
    }

    fn remove_key(&mut self, key: PeerKey) {
        self.unbind(key);
        if let Some(entry) = self.all.remove(key) {
            self.by_socket.remove(&entry.at);
        }
    }

    /// Make a new entry, if there is room.
    fn insert(&mut self, at: SocketAddr, now: Instant) -> Option<PeerKey> {
        self.remove_silent(now);
        if self.all.len() == self.capacity {
            return None;
        }
        let entry = PeerEntry { at, raw: at.as_any(), address: None, is_added: false, last_received: now };
        let key = self.all.insert(entry);
        self.by_socket.insert(at, key);
        Some(key)
    }
}

/// The pause after a flood, for each peer but one: 5000 datagrams a second in the long run ...
const PAUSE_PER_PEER: Duration = Duration::from_micros(200);
/// ... and 65536 at once: enough for one of 256 nodes to test how it reaches the others.
const MAX_BURST: Duration = Duration::from_micros(200 * 65_536);

/// Limits the flooding of frames to unknown addresses. Such a frame goes to every peer, as a switch does. By that, a
/// node finds a peer of a static table, and tests which framing reaches a peer, with a frame to an address that no node
/// has. But a host that forges small beacons can choose addresses for which this node answers, and each answer would be
/// a datagram to every peer. So many floods may go at once, but only a limited number a second in the long run.
#[derive(Debug)]
pub(super) struct FloodLimiter {
    /// When all earlier floods are paid for.
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
mod tests {
    use super::*;

    fn table(capacity: usize) -> (PeerTable, Instant) {
        let now = Instant::now();
        (PeerTable::new(capacity, now), now)
    }

    fn socket(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1000 + number))
    }

    fn address(number: u64) -> Address {
        Address::from_u64(2 << 40 | number)
    }

    fn place_of(peers: &PeerTable, number: u64) -> Option<SocketAddr> {
        let raw = peers.get(peers.find(address(number))?)?;
        raw.clone().try_into().ok()
    }

    #[test]
    fn an_address_is_where_it_is_heard_and_elsewhere_only_after_a_silence() {
        let (mut peers, now) = table(4);
        assert_eq!(peers.learn(address(1), socket(1), now), Learned::New);
        assert_eq!(peers.learn(address(1), socket(1), now), Learned::Known);
        assert_eq!(peers.learn(address(1), socket(2), now + MOVE_TIMEOUT / 2), Learned::Elsewhere);
        assert_eq!(place_of(&peers, 1), Some(socket(1)));
        assert_eq!(peers.learn(address(1), socket(2), now + MOVE_TIMEOUT), Learned::Moved);
        assert_eq!((place_of(&peers, 1), peers.len()), (Some(socket(2)), 1));
    }

    #[test]
    fn a_restarted_peer_takes_the_place_of_its_old_address() {
        let (mut peers, now) = table(4);
        assert!(peers.add(socket(1)));
        for run in 1..100 {
            assert_eq!(peers.learn(address(run), socket(1), now), Learned::New);
            assert_eq!((place_of(&peers, run), place_of(&peers, run - 1)), (Some(socket(1)), None));
        }
        assert_eq!((peers.len(), peers.by_address.len()), (1, 1));
    }

    #[test]
    fn a_learned_peer_does_not_take_an_added_peers_address() {
        let (mut peers, now) = table(4);
        assert!(peers.add(socket(1)));
        peers.learn(address(1), socket(1), now);
        assert_eq!(peers.learn(address(1), socket(9), now), Learned::TakenByAdded);
        assert_eq!(place_of(&peers, 1), Some(socket(1)));
        // Another added entry does: the peer has moved, or has two sockets.
        assert!(peers.add(socket(2)));
        assert_eq!(peers.learn(address(1), socket(2), now), Learned::Moved);
        assert_eq!((place_of(&peers, 1), peers.len()), (Some(socket(2)), 2));
    }

    #[test]
    fn in_a_full_table_a_silent_entry_is_reused() {
        let (mut peers, then) = table(3);
        assert!(peers.add(socket(0)));
        let (a, b, just) = (then, then + Duration::from_secs(1), Duration::from_millis(1));
        peers.learn(address(1), socket(1), a);
        peers.learn(address(2), socket(2), b);
        assert_eq!(peers.learn(address(3), socket(3), a + MOVE_TIMEOUT - just), Learned::Full);
        assert!(!peers.add(socket(3)));
        assert_eq!(peers.learn(address(3), socket(3), a + MOVE_TIMEOUT), Learned::New);
        assert_eq!((place_of(&peers, 1), place_of(&peers, 2)), (None, Some(socket(2))));
        // An entry that was received from since then stays.
        peers.learn(address(2), socket(2), b + MOVE_TIMEOUT);
        assert_eq!(peers.learn(address(4), socket(4), b + MOVE_TIMEOUT), Learned::Full);
        assert_eq!(peers.learn(address(4), socket(4), a + 2 * MOVE_TIMEOUT), Learned::New);
        assert_eq!((place_of(&peers, 2), place_of(&peers, 3)), (Some(socket(2)), None));
    }

    #[test]
    fn a_stranger_who_is_silent_for_long_is_forgotten_and_an_introduced_place_is_not() {
        let (mut peers, now) = table(9);
        assert!(peers.add(socket(0)));
        (0..3).for_each(|number| _ = peers.learn(address(number), socket(number as u16), now));
        peers.learn(address(2), socket(2), now + SILENCE_TIMEOUT / 2);
        peers.remove_silent(now + SILENCE_TIMEOUT - Duration::from_millis(1));
        assert_eq!(peers.len(), 3);
        peers.remove_silent(now + SILENCE_TIMEOUT);
        assert_eq!((peers.len(), place_of(&peers, 2), place_of(&peers, 0)), (2, Some(socket(2)), Some(socket(0))));
        peers.remove_silent(now + 2 * SILENCE_TIMEOUT);
        assert_eq!((peers.len(), peers.by_socket.len(), peers.by_address.len()), (1, 1, 1));
    }

    /// The entry that is reused is the one that has moved.
    #[test]
    fn a_moved_peer_is_found_in_a_full_table() {
        let (mut peers, now) = table(1);
        peers.learn(address(1), socket(1), now);
        assert_eq!(peers.learn(address(1), socket(2), now + MOVE_TIMEOUT), Learned::Moved);
        assert_eq!((place_of(&peers, 1), peers.len()), (Some(socket(2)), 1));
    }

    #[test]
    fn the_key_of_a_removed_entry_is_invalid() {
        let (mut peers, now) = table(1);
        peers.learn(address(1), socket(1), now);
        let key = peers.find(address(1)).unwrap();
        peers.remove(socket(1));
        assert!(peers.get(key).is_none() && peers.len() == 0);
        peers.learn(address(2), socket(2), now);
        assert!(peers.get(key).is_none(), "the slot is another's now");
    }

    #[test]
    fn many_addresses_are_found() {
        let (mut peers, now) = table(500);
        for number in 0..500 {
            let mixed = number * 7919 % 500;
            peers.learn(address(mixed), socket(mixed as u16), now);
        }
        assert!((0..500).all(|number| place_of(&peers, number) == Some(socket(number as u16))));
    }

    /// Of frames that come as fast as possible, the number that are flooded at once, and in the second after that.
    fn go(places: usize) -> [usize; 2] {
        let start = Instant::now();
        let mut unheard = FloodLimiter::new(start);
        let mut within = |milliseconds: std::ops::Range<u64>| {
            let tries = milliseconds.flat_map(|at| [start + Duration::from_millis(at); 1000]);
            tries.filter(|at| unheard.may_flood(*at, places)).count()
        };
        [within(0..1), within(1..1001)]
    }

    #[test]
    fn more_peers_get_fewer_floods() {
        assert_eq!(go(1), [1000, 1_000_000], "a single peer is never limited");
        assert_eq!([go(101), go(257), go(MAX_PEERS)], [[655, 50], [256, 19], [4, 0]]);
    }
}
