//! The link addresses of ports.

use am_wire::Address;

/// The most ports of a daemon: the bits of a `u128`.
pub const MAX_PORTS: usize = 128;

/// Numbers below it are for nodes that open a queue of the interface themselves, and have an address of the same kind.
const FIRST: usize = 256;

/// The address of a port: locally administered, made of the NIC's and the port's number. Its two highest bits are of no
/// header's version, so that it never looks like an address that carries a header.
pub fn address_of(base: Address, port: usize) -> Address {
    let Address([_, b, c, d, e, f]) = base;
    let number = FIRST + port;
    Address([0x82 | (number as u8 & 0xf) << 2, b ^ (number >> 4) as u8, c, d, e, f])
}

/// The number in the address of a port. For any other address it is some number: compare the port's address.
#[inline]
pub fn number_in(base: Address, address: Address) -> usize {
    let Address([a, b, ..]) = address;
    let number = usize::from(a >> 2 & 0xf) | usize::from(b ^ base.0[1]) << 4;
    number.wrapping_sub(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_port_has_an_address_of_its_own_and_no_headers_version() {
        for base in [Address([0; 6]), Address([0xff; 6]), Address([0x02, 0xa7, 1, 2, 3, 4])] {
            let addresses: Vec<_> = (0..MAX_PORTS).map(|port| address_of(base, port)).collect();
            assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), MAX_PORTS);
            for (port, address) in addresses.into_iter().enumerate() {
                assert_eq!(number_in(base, address), port);
                assert!(am_vnic::is_same_host(address, address_of(base, 0)) && !am_vnic::is_same_host(address, base));
                assert!(!am_vnic::is_same_host(address, address_of(Address([0x02, 0xa7, 1, 2, 3, 5]), port)));
                assert_eq!((address.is_group(), address.is_local(), address.0[0] >> 6), (false, true, 0b10));
            }
        }
    }
}
