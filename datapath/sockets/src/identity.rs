//! Chooses the address that a transport gives itself.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use am_wire::Address;

/// The number of sockets that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Choose an address: locally administered, unicast, and different each time. It has 46 bits of a hash over boot,
/// process, time and socket, with a key that the system draws at random. Of a thousand transports, two have the same
/// address with a probability of 1 in 10⁸.
pub(crate) fn choose_address(local: SocketAddr) -> Address {
    let mut hash = RandomState::new().build_hasher();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hash);
    (std::process::id(), SystemTime::now(), OPENED.fetch_add(1, Ordering::Relaxed), local).hash(&mut hash);
    let Address([first, rest @ ..]) = Address::from_u64(hash.finish());
    let [b, c, d, e, f] = rest;
    Address([first & 0xfc | 0x02, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn addresses_are_local_and_different() {
        let local = "127.0.0.1:7000".parse().unwrap();
        let all: BTreeSet<Address> = (0..1000).map(|_| choose_address(local)).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|address| address.is_local() && !address.is_group()));
    }
}
