//! Members that have left, or whose processes have ended.

use std::time::{Duration, Instant};

use am_wire::Address;

/// The interval at which the kernel is asked about each member, which takes a microsecond or less.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The addresses of departed members, until the engine takes them.
#[derive(Debug)]
pub(crate) struct Departed {
    addresses: Vec<Address>,
    last_check: Instant,
}

impl Departed {
    pub(crate) fn new(members: usize) -> Departed {
        Departed { addresses: Vec::with_capacity(4 * members), last_check: Instant::now() }
    }

    /// Note a departed member. If the addresses are never taken, the first ones are kept.
    pub(crate) fn push(&mut self, address: Address) {
        if self.addresses.len() < self.addresses.capacity() {
            self.addresses.push(address);
        }
    }

    /// Whether it is time for another check.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_time = self.last_check.elapsed() >= CHECK_INTERVAL;
        if is_time {
            self.last_check = Instant::now();
        }
        is_time
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Address> {
        self.addresses.drain(..)
    }
}
