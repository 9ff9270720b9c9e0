//! Limits the flooding of frames to unknown addresses. Such a frame goes to every peer, as a switch does. By that, a
//! node finds a peer of a static table, and tests which framing reaches a peer, with a frame to an address that no node
//! has. But a host that forges small beacons can choose addresses for which this node answers, and each answer would be
//! a datagram to every peer. So many floods may go at once, but only a limited number a second in the long run.

use std::time::{Duration, Instant};

/// The pause after a flood, for each peer but one: 5000 datagrams a second in the long run ...
const PAUSE_PER_PEER: Duration = Duration::from_micros(200);
/// ... and 65536 at once: enough for one of 256 nodes to test how it reaches the others.
const MAX_BURST: Duration = Duration::from_micros(200 * 65_536);

/// The limiter's state.
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
    use crate::udp::open::MAX_PEERS;

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
