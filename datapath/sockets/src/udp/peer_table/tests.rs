//! Tests of the peer table, and of the limit on floods.

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
fn many_addresses_are_behind_one_socket_and_the_earliest_is_forgotten_for_one_more() {
    let (mut peers, now) = table(4);
    assert!(peers.add(socket(1)));
    let last = MAX_LINKS as u64;
    assert!((1..=last).all(|number| peers.learn(address(number), socket(1), now) == Learned::New));
    assert!((1..=last).all(|number| place_of(&peers, number) == Some(socket(1))));
    assert_eq!(peers.learn(address(last + 1), socket(1), now), Learned::New);
    assert_eq!((place_of(&peers, 1), place_of(&peers, last + 1)), (None, Some(socket(1))));
    assert_eq!((peers.len(), peers.by_address.len()), (1, MAX_LINKS));
    peers.remove(socket(1));
    assert_eq!((peers.len(), peers.by_address.len()), (0, 0));
}

#[test]
fn one_address_behind_a_socket_is_silent_and_forgotten_and_another_is_not() {
    let (mut peers, now) = table(4);
    assert_eq!([1, 2].map(|number| peers.learn(address(number), socket(1), now)), [Learned::New; 2]);
    let late = now + SILENCE_TIMEOUT;
    assert_eq!(peers.learn(address(2), socket(1), late - Duration::from_millis(1)), Learned::Known);
    peers.remove_silent(late);
    assert_eq!((place_of(&peers, 1), place_of(&peers, 2), peers.len()), (None, Some(socket(1)), 1));
    // The silent one may be elsewhere now, the other one may not.
    assert_eq!(peers.learn(address(1), socket(2), late), Learned::New);
    assert_eq!(peers.learn(address(2), socket(2), late), Learned::Elsewhere);
    peers.remove_silent(late + SILENCE_TIMEOUT);
    assert_eq!((peers.len(), peers.by_socket.len(), peers.by_address.len()), (0, 0, 0));
}

#[test]
fn one_of_several_addresses_moves() {
    let (mut peers, now) = table(4);
    (1..4).for_each(|number| _ = peers.learn(address(number), socket(1), now));
    assert_eq!(peers.learn(address(2), socket(2), now + MOVE_TIMEOUT), Learned::Moved);
    let places = [1, 2, 3].map(|number| place_of(&peers, number));
    assert_eq!(places, [socket(1), socket(2), socket(1)].map(Some));
}

/// One socket with many addresses fills the table no further than many sockets with one each.
#[test]
fn learned_link_addresses_are_bounded() {
    let (mut peers, now) = table(4);
    assert!(peers.add(socket(0)));
    assert!((1..5).all(|number| peers.learn(address(number), socket(1), now) == Learned::New));
    let full = [1, 2].map(|at| peers.learn(address(9), socket(at), now));
    assert_eq!(full, [Learned::Full; 2]);
    // An added entry has room all the same, and silent addresses make room.
    assert_eq!(peers.learn(address(9), socket(0), now), Learned::New);
    assert_eq!(peers.learn(address(8), socket(2), now + MOVE_TIMEOUT), Learned::New);
    assert_eq!((peers.len(), peers.by_address.len(), place_of(&peers, 9)), (2, 2, Some(socket(0))));
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
