//! Peer addresses to dial, and the connection for each link address.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use am_wire::Address;

/// The first pause before an address that does not answer is dialed again. It doubles each time, up to
/// [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
/// The longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// A peer address that the program has added.
#[derive(Debug)]
pub(super) struct PeerTarget {
    pub(super) at: SocketAddr,
    /// The connection that was dialed to it.
    pub(super) slot: Option<u32>,
    next_try: Instant,
    back_off: Duration,
}

impl PeerTarget {
    pub(super) fn new(at: SocketAddr) -> PeerTarget {
        PeerTarget { at, slot: None, next_try: Instant::now(), back_off: MIN_BACKOFF }
    }

    /// Whether it is time to dial.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.slot.is_none() && now >= self.next_try
    }

    /// The connection has ended, or the dial has failed.
    pub(super) fn on_failed(&mut self, now: Instant) {
        self.slot = None;
        self.next_try = now + self.back_off;
        self.back_off = (2 * self.back_off).min(MAX_BACKOFF);
    }

    /// The peer has answered.
    pub(super) fn on_answered(&mut self) {
        self.back_off = MIN_BACKOFF;
    }
}

/// The one connection that carries the frames for each link address, even if more connections lead there. So frames
/// stay in order.
#[derive(Debug)]
pub(super) struct Routes(Vec<(Address, u32)>);

impl Routes {
    /// Room for `capacity` routes.
    pub(super) fn new(capacity: usize) -> Routes {
        Routes(Vec::with_capacity(capacity))
    }

    #[inline]
    pub(super) fn find(&self, address: Address) -> Option<u32> {
        let at = self.0.binary_search_by_key(&address, |(its, _)| *its).ok()?;
        Some(self.0[at].1)
    }

    /// The connections in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(_, slot)| *slot)
    }

    /// Route frames for this address over this connection, unless the address has a route.
    pub(super) fn add(&mut self, address: Address, slot: u32) {
        if let Err(at) = self.0.binary_search_by_key(&address, |(its, _)| *its) {
            self.0.insert(at, (address, slot));
        }
    }

    /// Remove the route over a connection that has ended. Returns its address.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Address> {
        let at = self.0.iter().position(|(_, its)| *its == slot)?;
        Some(self.0.remove(at).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_connection_until_that_ends() {
        let mut routes = Routes::new(8);
        let address = |number: u64| Address::from_u64(2 << 40 | number);
        for number in [5, 1, 3] {
            routes.add(address(number), number as u32);
            routes.add(address(number), 77);
        }
        assert_eq!([1, 3, 5, 7].map(|number| routes.find(address(number))), [Some(1), Some(3), Some(5), None]);
        assert_eq!((routes.remove(3), routes.remove(3)), (Some(address(3)), None));
        routes.add(address(3), 77);
        assert_eq!((routes.find(address(3)), routes.slots().count()), (Some(77), 3));
    }

    #[test]
    fn tries_become_rarer_until_somebody_answers() {
        let (mut target, mut now) = (PeerTarget::new("127.0.0.1:1".parse().unwrap()), Instant::now());
        let mut waits = vec![];
        for _ in 0..9 {
            assert!(target.is_due(now));
            target.on_failed(now);
            assert!(!target.is_due(now));
            waits.push(target.next_try - now);
            now = target.next_try;
        }
        assert!(waits.windows(2).all(|two| two[0] <= two[1]) && waits[8] == MAX_BACKOFF, "{waits:?}");
        target.on_answered();
        target.on_failed(now);
        assert_eq!(target.next_try - now, MIN_BACKOFF);
    }
}
