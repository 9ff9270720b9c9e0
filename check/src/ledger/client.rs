//! The side that asks.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Node, NotOpen};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::peer::Peer;
use super::process::{ENDPOINT, Leave, Place, SERVER, open};
use crate::Error;

/// Requests of one connection that are handed over before the next turn.
const BURST: u32 = 32;
/// Connections at once.
const LANES: usize = 3;
/// A client that leaves with everything answered waits so long for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// One connection after the other.
pub(super) struct Lane {
    to: Connection,
    /// The requests that it is to send, how many may be open at once, and whether it is closed while some are.
    most: u32,
    open: u32,
    cuts: bool,
    asked: Instant,
}

/// Ask until the driver says `leave`; close connections and drop the node now and then.
pub(super) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let (mut peer, mut random) = (Peer::new(place)?, SmallRng::seed_from_u64(place.seed));
    while let Some(node) = open(place, leave)? {
        live(&node, &mut peer, &mut random, leave)?;
        peer.count_lost(&node);
    }
    Ok(())
}

/// The life of a node.
fn live(node: &Node, peer: &mut Peer, random: &mut SmallRng, leave: &Leave) -> Result<(), Error> {
    let mut endpoint = Peer::endpoint(node)?;
    let mut lanes = (0..LANES).map(|_| Lane::random(&endpoint, random)).collect::<Result<Vec<_>, _>>()?;
    let mut connections = random.random_range(5..60);
    while connections > 0 && !leave.load(Relaxed) {
        for lane in &mut lanes {
            if !lane.step(&endpoint, peer) {
                *lane = Lane::random(&endpoint, random)?;
                connections -= 1;
            }
        }
        endpoint.wait(peer, Duration::from_millis(1));
    }
    if random.random_bool(0.5) {
        // The last reply was handled in the turn before, and is not acknowledged yet.
        endpoint.wait_until(peer, PATIENCE, |peer| peer.is_settled());
    }
    peer.leave();
    Ok(())
}

impl Lane {
    /// To a node of this name, for this many requests, some of them at once.
    pub(super) fn connect(endpoint: &Endpoint<Peer>, name: &str, most: u32, open: u32) -> Result<Lane, Error> {
        Ok(Lane { to: endpoint.connect(name, ENDPOINT)?, most, open, cuts: false, asked: Instant::now() })
    }

    fn random(endpoint: &Endpoint<Peer>, random: &mut SmallRng) -> Result<Lane, Error> {
        let most = 1 << random.random_range(0..18);
        let most = random.random_range(most / 2..=most).max(1);
        Ok(Lane { cuts: random.random_bool(0.5), ..Lane::connect(endpoint, SERVER, most, u32::MAX)? })
    }

    /// Send what there is room for. `false` where the connection is over.
    pub(super) fn step(&mut self, endpoint: &Endpoint<Peer>, peer: &mut Peer) -> bool {
        match endpoint.ready(self.to) {
            Ok(()) => {}
            Err(NotOpen::Connecting) => return true,
            // The other side may be away, and need not be asked all the time.
            Err(_) if self.asked.elapsed() < Duration::from_millis(10) => return true,
            Err(_) => {
                endpoint.close(self.to);
                return false;
            }
        }
        let asked = peer.asked(self.to);
        let until = self.most.min(asked.sent + BURST).min(asked.settled.saturating_add(self.open));
        peer.send(endpoint, self.to, until);
        let asked = peer.asked(self.to);
        let is_done = asked.sent == self.most && (self.cuts || asked.settled == asked.sent);
        if is_done && asked.over.is_none() {
            peer.close(endpoint, self.to);
        }
        !is_done
    }
}
