//! Members whose processes have ended, however.

use std::time::{Duration, Instant};

use wire::Address;

use crate::Shm;

/// The kernel is asked about each member so often: that takes a microsecond or less.
const ASK: Duration = Duration::from_millis(20);

/// Addresses of those who are gone, until somebody asks.
#[derive(Debug)]
pub(crate) struct Gone {
    addresses: Vec<Address>,
    asked: Instant,
}

impl Gone {
    pub(crate) fn new(members: usize) -> Gone {
        Gone { addresses: Vec::with_capacity(4 * members), asked: Instant::now() }
    }

    /// Somebody is gone. Where nobody asks who it was, the first ones are enough.
    pub(crate) fn note(&mut self, address: Address) {
        if self.addresses.len() < self.addresses.capacity() {
            self.addresses.push(address);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Address> {
        self.addresses.pop()
    }
}

impl Shm {
    /// Who was killed has told nobody. What it sent before is still taken in.
    pub(crate) fn look_for_dead(&mut self) {
        if self.gone.asked.elapsed() < ASK {
            return;
        }
        self.gone.asked = Instant::now();
        for at in 0..self.present.len() {
            let peer = &mut self.peers[self.present[at]];
            if peer.is_here() && !self.own.is_alive(peer.member, peer.birth) {
                self.own.header.bury(peer.member, peer.birth);
                peer.is_leaving = true;
            }
        }
    }
}
