//! Frames for one who was not heard: where he is nobody knows, so they go to all places, as by a switch. That is how
//! a peer of a static table is found, and how a node finds out which framing reaches a peer: it sends a frame to an address
//! that is nobody's. But whoever forges small beacons chooses for which addresses he has us answer, and each would be a
//! datagram to each place. So there are many at once, and not more than so many in a second in the long run.

use std::time::{Duration, Instant};

/// For each place but the one where he may be: 5000 datagrams a second at most, in the long run ...
const FOR_EACH: Duration = Duration::from_micros(200);
/// ... and 65536 at once: those with which one of 256 nodes finds out how it reaches the others.
const AHEAD: Duration = Duration::from_micros(200 * 65_536);

/// When frames for the unheard may go to all again.
#[derive(Debug)]
pub(super) struct Unheard {
    /// What was sent is paid for by then.
    paid: Instant,
}

impl Unheard {
    pub(super) fn new(now: Instant) -> Unheard {
        Unheard { paid: now }
    }

    /// Whether one more frame may go to so many places.
    #[cold]
    pub(super) fn may_go(&mut self, now: Instant, places: usize) -> bool {
        let paid = self.paid.max(now) + FOR_EACH * places.saturating_sub(1) as u32;
        let may_go = paid <= now + AHEAD;
        if may_go {
            self.paid = paid;
        }
        may_go
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::open::PLACES;

    /// Of frames that come as fast as they can, how many go to so many places at once, and in the second after that.
    fn go(places: usize) -> [usize; 2] {
        let start = Instant::now();
        let mut unheard = Unheard::new(start);
        let mut within = |milliseconds: std::ops::Range<u64>| {
            let tries = milliseconds.flat_map(|at| [start + Duration::from_millis(at); 1000]);
            tries.filter(|at| unheard.may_go(*at, places)).count()
        };
        [within(0..1), within(1..1001)]
    }

    #[test]
    fn the_more_places_there_are_the_fewer_go_to_all() {
        assert_eq!(go(1), [1000, 1_000_000], "there is but one place where he can be");
        assert_eq!([go(101), go(257), go(PLACES)], [[655, 50], [256, 19], [4, 0]]);
    }
}
