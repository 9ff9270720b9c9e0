//! The peer table: the socket addresses to which broadcasts go, and the link address behind each.
//!
//! Each entry is a socket, and behind a socket is one transport. So an entry has one link address at a time, and a link
//! address one entry. Learned entries expire; added ones stay.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use am_wire::Address;
use rustix::net::{SocketAddrAny, addr::SocketAddrArg};
use slotmap::{SlotMap, new_key_type};

/// A learned entry that has been silent for this long is removed. A connected peer sends more often than that.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A peer that has not been received for this long, two beacons, may have moved. In a full table its entry may be
/// reused.
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
    /// A table for `most` entries.
    pub(crate) fn new(most: usize, now: Instant) -> PeerTable {
        let (by_socket, by_address) = (HashMap::new(), BTreeMap::new());
        PeerTable { all: SlotMap::with_key(), capacity: most, by_socket, by_address, earliest: now }
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
    pub(crate) fn get(&self, ticket: PeerKey) -> Option<&SocketAddrAny> {
        self.all.get(ticket).map(|place| &place.raw)
    }

    /// All socket addresses.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SocketAddrAny> {
        self.all.values().map(|place| &place.raw)
    }

    /// Add an entry that stays until it is removed. False if the table is full.
    pub(crate) fn add(&mut self, at: SocketAddr) -> bool {
        let ticket = self.by_socket.get(&at).copied().or_else(|| self.insert(at, Instant::now()));
        let place = ticket.and_then(|ticket| self.all.get_mut(ticket));
        place.map(|place| place.is_added = true).is_some()
    }

    /// Remove an entry.
    pub(crate) fn remove(&mut self, at: SocketAddr) {
        if let Some(ticket) = self.by_socket.get(&at) {
            self.remove_key(*ticket);
        }
    }

    /// Remove learned entries that have been silent for too long.
    pub(crate) fn remove_silent(&mut self, now: Instant) {
        let silence = if self.all.len() == self.capacity { MOVE_TIMEOUT } else { SILENCE_TIMEOUT };
        let is_silent = |heard: Instant| now.saturating_duration_since(heard) >= silence;
        if !is_silent(self.earliest) {
            return;
        }
        let silent: Vec<PeerKey> =
            self.learned_entries().filter(|(_, heard)| is_silent(*heard)).map(|(it, _)| it).collect();
        silent.into_iter().for_each(|ticket| self.remove_key(ticket));
        self.earliest = self.learned_entries().map(|(_, heard)| heard).min().unwrap_or(now);
    }

    /// The learned entries, and when each was last received from.
    fn learned_entries(&self) -> impl Iterator<Item = (PeerKey, Instant)> {
        self.all.iter().filter(|(_, place)| !place.is_added).map(|(ticket, place)| (ticket, place.last_received))
    }

    /// A frame from this link address has arrived from this socket.
    pub(crate) fn learn(&mut self, address: Address, from: SocketAddr, now: Instant) -> Learned {
        let known = self.find(address);
        if let Some(place) = known.and_then(|ticket| self.all.get_mut(ticket))
            && place.at == from
        {
            place.last_received = now;
            return Learned::Known;
        }
        let here = self.by_socket.get(&from).copied();
        let is_introduced = |ticket: Option<PeerKey>| ticket.is_some_and(|ticket| self.all[ticket].is_added);
        let is_heard = |ticket: PeerKey| now.saturating_duration_since(self.all[ticket].last_received) < MOVE_TIMEOUT;
        if is_introduced(known) && !is_introduced(here) {
            return Learned::TakenByAdded;
        }
        if !is_introduced(here) && known.is_some_and(is_heard) {
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
    fn bind(&mut self, ticket: PeerKey, address: Address, now: Instant) {
        self.unbind(ticket);
        let place = &mut self.all[ticket];
        (place.address, place.last_received) = (Some(address), now);
        self.by_address.insert(address, ticket);
    }

    fn unbind(&mut self, ticket: PeerKey) {
        if let Some(address) = self.all[ticket].address.take() {
            self.by_address.remove(&address);
        }
    }

    /// Take the link address from an entry. A learned entry is removed with it.
    fn detach(&mut self, ticket: PeerKey) {
        if self.all[ticket].is_added { self.unbind(ticket) } else { self.remove_key(ticket) }
    }

    fn remove_key(&mut self, ticket: PeerKey) {
        self.unbind(ticket);
        if let Some(place) = self.all.remove(ticket) {
            self.by_socket.remove(&place.at);
        }
    }

    /// Make a new entry, if there is room.
    fn insert(&mut self, at: SocketAddr, now: Instant) -> Option<PeerKey> {
        self.remove_silent(now);
        if self.all.len() == self.capacity {
            return None;
        }
        let place = PeerEntry { at, raw: at.as_any(), address: None, is_added: false, last_received: now };
        let ticket = self.all.insert(place);
        self.by_socket.insert(at, ticket);
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(most: usize) -> (PeerTable, Instant) {
        let now = Instant::now();
        (PeerTable::new(most, now), now)
    }

    fn socket(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1000 + number))
    }

    fn address(number: u64) -> Address {
        Address::from_u64(2 << 40 | number)
    }

    fn place_of(places: &PeerTable, number: u64) -> Option<SocketAddr> {
        let raw = places.get(places.find(address(number))?)?;
        raw.clone().try_into().ok()
    }

    #[test]
    fn an_address_is_where_it_is_heard_and_elsewhere_only_after_a_silence() {
        let (mut places, now) = table(4);
        assert_eq!(places.learn(address(1), socket(1), now), Learned::New);
        assert_eq!(places.learn(address(1), socket(1), now), Learned::Known);
        assert_eq!(places.learn(address(1), socket(2), now + MOVE_TIMEOUT / 2), Learned::Elsewhere);
        assert_eq!(place_of(&places, 1), Some(socket(1)));
        assert_eq!(places.learn(address(1), socket(2), now + MOVE_TIMEOUT), Learned::Moved);
        assert_eq!((place_of(&places, 1), places.len()), (Some(socket(2)), 1));
    }

    #[test]
    fn a_restarted_peer_takes_the_place_of_its_old_address() {
        let (mut places, now) = table(4);
        assert!(places.add(socket(1)));
        for run in 1..100 {
            assert_eq!(places.learn(address(run), socket(1), now), Learned::New);
            assert_eq!((place_of(&places, run), place_of(&places, run - 1)), (Some(socket(1)), None));
        }
        assert_eq!((places.len(), places.by_address.len()), (1, 1));
    }

    #[test]
    fn a_learned_peer_does_not_take_an_added_peers_address() {
        let (mut places, now) = table(4);
        assert!(places.add(socket(1)));
        places.learn(address(1), socket(1), now);
        assert_eq!(places.learn(address(1), socket(9), now), Learned::TakenByAdded);
        assert_eq!(place_of(&places, 1), Some(socket(1)));
        // Another added entry does: the peer has moved, or has two sockets.
        assert!(places.add(socket(2)));
        assert_eq!(places.learn(address(1), socket(2), now), Learned::Moved);
        assert_eq!((place_of(&places, 1), places.len()), (Some(socket(2)), 2));
    }

    #[test]
    fn in_a_full_table_a_silent_entry_is_reused() {
        let (mut places, then) = table(3);
        assert!(places.add(socket(0)));
        let (a, b, just) = (then, then + Duration::from_secs(1), Duration::from_millis(1));
        places.learn(address(1), socket(1), a);
        places.learn(address(2), socket(2), b);
        assert_eq!(places.learn(address(3), socket(3), a + MOVE_TIMEOUT - just), Learned::Full);
        assert!(!places.add(socket(3)));
        assert_eq!(places.learn(address(3), socket(3), a + MOVE_TIMEOUT), Learned::New);
        assert_eq!((place_of(&places, 1), place_of(&places, 2)), (None, Some(socket(2))));
        // An entry that was received from since then stays.
        places.learn(address(2), socket(2), b + MOVE_TIMEOUT);
        assert_eq!(places.learn(address(4), socket(4), b + MOVE_TIMEOUT), Learned::Full);
        assert_eq!(places.learn(address(4), socket(4), a + 2 * MOVE_TIMEOUT), Learned::New);
        assert_eq!((place_of(&places, 2), place_of(&places, 3)), (Some(socket(2)), None));
    }

    #[test]
    fn a_stranger_who_is_silent_for_long_is_forgotten_and_an_introduced_place_is_not() {
        let (mut places, now) = table(9);
        assert!(places.add(socket(0)));
        (0..3).for_each(|number| _ = places.learn(address(number), socket(number as u16), now));
        places.learn(address(2), socket(2), now + SILENCE_TIMEOUT / 2);
        places.remove_silent(now + SILENCE_TIMEOUT - Duration::from_millis(1));
        assert_eq!(places.len(), 3);
        places.remove_silent(now + SILENCE_TIMEOUT);
        assert_eq!((places.len(), place_of(&places, 2), place_of(&places, 0)), (2, Some(socket(2)), Some(socket(0))));
        places.remove_silent(now + 2 * SILENCE_TIMEOUT);
        assert_eq!((places.len(), places.by_socket.len(), places.by_address.len()), (1, 1, 1));
    }

    /// The entry that is reused is the one that has moved.
    #[test]
    fn a_moved_peer_is_found_in_a_full_table() {
        let (mut places, now) = table(1);
        places.learn(address(1), socket(1), now);
        assert_eq!(places.learn(address(1), socket(2), now + MOVE_TIMEOUT), Learned::Moved);
        assert_eq!((place_of(&places, 1), places.len()), (Some(socket(2)), 1));
    }

    #[test]
    fn the_key_of_a_removed_entry_is_invalid() {
        let (mut places, now) = table(1);
        places.learn(address(1), socket(1), now);
        let ticket = places.find(address(1)).unwrap();
        places.remove(socket(1));
        assert!(places.get(ticket).is_none() && places.len() == 0);
        places.learn(address(2), socket(2), now);
        assert!(places.get(ticket).is_none(), "the slot is another's now");
    }

    #[test]
    fn many_addresses_are_found() {
        let (mut places, now) = table(500);
        for number in 0..500 {
            let mixed = number * 7919 % 500;
            places.learn(address(mixed), socket(mixed as u16), now);
        }
        assert!((0..500).all(|number| place_of(&places, number) == Some(socket(number as u16))));
    }
}
