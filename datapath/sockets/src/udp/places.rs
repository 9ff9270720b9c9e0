//! Who is where: the places that frames to everybody go to, and the addresses behind them.
//!
//! A place is a socket, and behind a socket is one transport: a place has one
//! address at a time, and an address one place. Nothing is allocated after the table is made.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::net::{SocketAddrAny, addr::SocketAddrArg};
use wire::Address;

/// A stranger who has been silent for so long gives way to a new one when the table is full.
const SILENCE: Duration = Duration::from_secs(30);

/// Who has not been heard at its place for so long, two beacons, may be somewhere else.
const HERE: Duration = Duration::from_secs(11);

/// A place in the table, as long as it is somebody's: what waits for one who
/// has gone does not go to who came after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    slot: u32,
    /// Counts whose it was.
    turn: u32,
}

/// What came of an address that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// As before.
    Known,
    /// It was not known, or its place was another's.
    New,
    /// It was somewhere else.
    Moved,
    /// No room for a stranger.
    Full,
    /// It is an introduced place's, and who says so is a stranger.
    Taken,
    /// Who has it was heard elsewhere a moment ago: an address is of one run of a node, which has one socket.
    Elsewhere,
}

#[derive(Debug)]
pub(crate) struct Places {
    slots: Vec<Slot>,
    /// Sorted by address; few enough for a search by halves.
    addresses: Vec<(Address, u32)>,
    live: usize,
}

#[derive(Debug)]
struct Slot {
    place: Option<Place>,
    turn: u32,
}

#[derive(Debug)]
struct Place {
    at: SocketAddr,
    /// As the system call takes it.
    raw: SocketAddrAny,
    address: Option<Address>,
    introduced: bool,
    heard: Instant,
}

impl Places {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> Places {
        let slots = (0..most).map(|_| Slot { place: None, turn: 0 }).collect();
        Places { slots, addresses: Vec::with_capacity(most), live: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The place behind which an address is.
    #[inline]
    pub(crate) fn find(&self, address: Address) -> Option<Ticket> {
        let at = self.addresses.binary_search_by_key(&address, |(its, _)| *its).ok()?;
        let slot = self.addresses[at].1;
        Some(Ticket { slot, turn: self.slots[slot as usize].turn })
    }

    /// The place itself, unless it is no longer theirs.
    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&SocketAddrAny> {
        let slot = &self.slots[ticket.slot as usize];
        slot.place.as_ref().filter(|_| slot.turn == ticket.turn).map(|place| &place.raw)
    }

    /// All places.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SocketAddrAny> {
        self.places().map(|(_, place)| &place.raw)
    }

    fn places(&self) -> impl Iterator<Item = (u32, &Place)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(at, slot)| Some((at, slot.place.as_ref()?)))
    }

    fn place(&mut self, slot: u32) -> Option<&mut Place> {
        self.slots[slot as usize].place.as_mut()
    }

    fn at(&self, at: SocketAddr) -> Option<u32> {
        self.places().find(|(_, place)| place.at == at).map(|(slot, _)| slot)
    }

    /// Keep a place until it is forgotten. Whether there was room.
    pub(crate) fn introduce(&mut self, at: SocketAddr) -> bool {
        let slot = self.at(at).or_else(|| self.settle(at, Instant::now()));
        let place = slot.and_then(|slot| self.place(slot));
        place.map(|place| place.introduced = true).is_some()
    }

    /// Nobody is there any more.
    pub(crate) fn forget(&mut self, at: SocketAddr) {
        if let Some(slot) = self.at(at) {
            self.leave(slot);
        }
    }

    /// An address was heard from a place.
    pub(crate) fn learn(&mut self, address: Address, from: SocketAddr, now: Instant) -> Learned {
        let known = self.find(address).map(|ticket| ticket.slot);
        if let Some(place) = known.and_then(|slot| self.place(slot))
            && place.at == from
        {
            place.heard = now;
            return Learned::Known;
        }
        let here = self.at(from);
        let is_introduced = |slot: Option<u32>| slot.is_some_and(|slot| self.is_introduced(slot));
        if is_introduced(known) && !is_introduced(here) {
            return Learned::Taken;
        }
        if !is_introduced(here) && known.is_some_and(|slot| self.is_heard(slot, now)) {
            return Learned::Elsewhere;
        }
        let Some(here) = here.or_else(|| self.settle(from, now)) else { return Learned::Full };
        if let Some(known) = known {
            self.depart(known);
        }
        self.bind(here, address, now);
        if known.is_some() { Learned::Moved } else { Learned::New }
    }

    fn is_heard(&self, slot: u32, now: Instant) -> bool {
        let place = self.slots[slot as usize].place.as_ref();
        place.is_some_and(|place| now.saturating_duration_since(place.heard) < HERE)
    }

    fn is_introduced(&self, slot: u32) -> bool {
        self.slots[slot as usize].place.as_ref().is_some_and(|place| place.introduced)
    }

    /// Behind this place is this address from now on.
    fn bind(&mut self, slot: u32, address: Address, now: Instant) {
        self.unbind(slot);
        if let Some(place) = self.place(slot) {
            place.address = Some(address);
            place.heard = now;
        }
        let at = self.addresses.partition_point(|(its, _)| *its < address);
        self.addresses.insert(at, (address, slot));
    }

    fn unbind(&mut self, slot: u32) {
        let before = self.place(slot).and_then(|place| place.address.take());
        self.addresses.retain(|(its, _)| Some(*its) != before);
    }

    /// An address is no longer behind this place, where a stranger's ends with it.
    fn depart(&mut self, slot: u32) {
        if self.is_introduced(slot) { self.unbind(slot) } else { self.leave(slot) }
    }

    fn leave(&mut self, slot: u32) {
        self.unbind(slot);
        let slot = &mut self.slots[slot as usize];
        self.live -= slot.place.take().is_some() as usize;
        slot.turn = slot.turn.wrapping_add(1);
    }

    /// A slot for a new place; where none is free, that of the stranger who has been silent for longest.
    fn settle(&mut self, at: SocketAddr, now: Instant) -> Option<u32> {
        if self.live == self.slots.len() {
            let silent = |place: &Place| !place.introduced && now.saturating_duration_since(place.heard) > SILENCE;
            let strangers = self.places().filter(|(_, place)| silent(place));
            let (slot, _) = strangers.min_by_key(|(_, place)| place.heard)?;
            self.leave(slot);
        }
        let free = self.slots.iter().position(|slot| slot.place.is_none())?;
        let place = Place { at, raw: at.as_any(), address: None, introduced: false, heard: now };
        self.slots[free].place = Some(place);
        self.live += 1;
        Some(free as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1000 + number))
    }

    fn address(number: u64) -> Address {
        Address::from_u64(2 << 40 | number)
    }

    fn place_of(places: &Places, number: u64) -> Option<SocketAddr> {
        let raw = places.get(places.find(address(number))?)?;
        raw.clone().try_into().ok()
    }

    #[test]
    fn an_address_is_where_it_is_heard_and_elsewhere_only_after_a_silence() {
        let (mut places, now) = (Places::new(4), Instant::now());
        assert_eq!(places.learn(address(1), socket(1), now), Learned::New);
        assert_eq!(places.learn(address(1), socket(1), now), Learned::Known);
        assert_eq!(places.learn(address(1), socket(2), now + HERE / 2), Learned::Elsewhere);
        assert_eq!(place_of(&places, 1), Some(socket(1)));
        assert_eq!(places.learn(address(1), socket(2), now + HERE), Learned::Moved);
        assert_eq!((place_of(&places, 1), places.len()), (Some(socket(2)), 1));
    }

    #[test]
    fn a_restarted_peer_takes_the_place_of_its_old_address() {
        let (mut places, now) = (Places::new(4), Instant::now());
        assert!(places.introduce(socket(1)));
        for run in 1..100 {
            assert_eq!(places.learn(address(run), socket(1), now), Learned::New);
            assert_eq!((place_of(&places, run), place_of(&places, run - 1)), (Some(socket(1)), None));
        }
        assert_eq!((places.len(), places.addresses.len()), (1, 1));
    }

    #[test]
    fn a_stranger_does_not_get_what_is_an_introduced_places() {
        let (mut places, now) = (Places::new(4), Instant::now());
        assert!(places.introduce(socket(1)));
        places.learn(address(1), socket(1), now);
        assert_eq!(places.learn(address(1), socket(9), now), Learned::Taken);
        assert_eq!(place_of(&places, 1), Some(socket(1)));
        // Another introduced one does: a peer that has moved, or has two sockets.
        assert!(places.introduce(socket(2)));
        assert_eq!(places.learn(address(1), socket(2), now), Learned::Moved);
        assert_eq!((place_of(&places, 1), places.len()), (Some(socket(2)), 2));
    }

    #[test]
    fn a_full_table_keeps_whom_it_has_and_lets_the_silent_go() {
        let (mut places, then) = (Places::new(3), Instant::now());
        assert!(places.introduce(socket(0)));
        places.learn(address(1), socket(1), then);
        places.learn(address(2), socket(2), then + Duration::from_secs(1));
        assert_eq!(places.learn(address(3), socket(3), then + SILENCE), Learned::Full);
        assert!(!places.introduce(socket(3)) || places.len() == 3);
        assert_eq!(places.learn(address(3), socket(4), then + SILENCE + Duration::from_millis(1)), Learned::New);
        assert_eq!((place_of(&places, 1), place_of(&places, 2).is_some()), (None, true));
    }

    #[test]
    fn what_waits_for_the_forgotten_is_nobodys() {
        let (mut places, now) = (Places::new(1), Instant::now());
        places.learn(address(1), socket(1), now);
        let ticket = places.find(address(1)).unwrap();
        places.forget(socket(1));
        assert!(places.get(ticket).is_none() && places.len() == 0);
        places.learn(address(2), socket(2), now);
        assert!(places.get(ticket).is_none(), "the slot is another's now");
    }

    #[test]
    fn many_addresses_are_found() {
        let (mut places, now) = (Places::new(500), Instant::now());
        for number in 0..500 {
            let mixed = number * 7919 % 500;
            places.learn(address(mixed), socket(mixed as u16), now);
        }
        assert!((0..500).all(|number| place_of(&places, number) == Some(socket(number as u16))));
    }
}
