//! The side that is asked.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::peer::Peer;
use super::process::{Leave, Place, open};
use crate::Error;

/// Handle requests until told to leave; drop the endpoint now and then, with all that waits in it.
pub(super) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let (mut peer, mut random) = (Peer::new(place)?, SmallRng::seed_from_u64(place.seed));
    let Some(node) = open(place, leave)? else { return Ok(()) };
    while !leave.load(Relaxed) {
        let until = Instant::now() + Duration::from_millis(random.random_range(500..8000));
        let mut endpoint = Peer::endpoint(&node)?;
        while Instant::now() < until && !leave.load(Relaxed) {
            endpoint.wait(&mut peer, Duration::from_millis(5));
        }
        peer.leave();
        drop(endpoint);
    }
    peer.count_lost(&node);
    Ok(())
}
