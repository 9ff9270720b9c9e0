//! Members whose processes have ended, however.

use std::time::{Duration, Instant};

use am_wire::Address;

/// The kernel is asked about each member so often: that takes a microsecond or less.
const ASK: Duration = Duration::from_millis(20);

/// Addresses of members that are gone, until they are asked for.
#[derive(Debug)]
pub(crate) struct Gone {
    addresses: Vec<Address>,
    asked: Instant,
}

impl Gone {
    pub(crate) fn new(members: usize) -> Gone {
        Gone { addresses: Vec::with_capacity(4 * members), asked: Instant::now() }
    }

    /// The member at this address is gone. Where they are never asked for, the first ones are enough.
    pub(crate) fn note(&mut self, address: Address) {
        if self.addresses.len() < self.addresses.capacity() {
            self.addresses.push(address);
        }
    }

    /// Whether members are to be asked about again.
    pub(crate) fn is_time(&mut self) -> bool {
        let is_time = self.asked.elapsed() >= ASK;
        if is_time {
            self.asked = Instant::now();
        }
        is_time
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Address> {
        self.addresses.drain(..)
    }
}
