//! A small set of link addresses.

use crate::Address;

/// Link addresses, at most [`AddressSet::MAX`] of them. A lookup in a full set takes eight comparisons.
#[derive(Clone, Debug)]
pub struct AddressSet {
    /// As numbers, the first `len` of them, in ascending order.
    sorted: [u64; AddressSet::MAX],
    len: usize,
}

impl AddressSet {
    /// The most addresses of a set.
    pub const MAX: usize = 256;

    /// The empty set.
    pub const fn new() -> AddressSet {
        AddressSet { sorted: [0; Self::MAX], len: 0 }
    }

    /// Whether an address is in the set.
    #[inline]
    pub fn contains(&self, address: Address) -> bool {
        self.position(address).is_ok()
    }

    /// Whether there is no room for another address.
    pub const fn is_full(&self) -> bool {
        self.len == Self::MAX
    }

    /// Add an address. False if the set is full; an address that is in the set already needs no room.
    pub fn insert(&mut self, address: Address) -> bool {
        let Err(at) = self.position(address) else { return true };
        if self.is_full() {
            return false;
        }
        self.sorted.copy_within(at..self.len, at + 1);
        self.sorted[at] = address.to_u64();
        self.len += 1;
        true
    }

    /// Remove an address. False if it is not in the set.
    pub fn remove(&mut self, address: Address) -> bool {
        let Ok(at) = self.position(address) else { return false };
        self.sorted.copy_within(at + 1..self.len, at);
        self.len -= 1;
        true
    }

    /// All addresses, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Address> {
        self.sorted[..self.len].iter().map(|number| Address::from_u64(*number))
    }

    fn position(&self, address: Address) -> Result<usize, usize> {
        self.sorted[..self.len].binary_search(&address.to_u64())
    }
}

impl Default for AddressSet {
    fn default() -> AddressSet {
        AddressSet::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_and_go_up_to_the_limit() {
        let address = |number: u64| Address::from_u64(number * 7919 % 1021);
        let mut set = AddressSet::new();
        assert!((0..AddressSet::MAX as u64).all(|number| set.insert(address(number))));
        assert!(!set.insert(address(999)) && !set.contains(address(999)));
        assert!(set.insert(address(3)), "it is there already");
        assert!(set.remove(address(3)) && !set.remove(address(3)));
        assert!((0..AddressSet::MAX as u64).all(|number| set.contains(address(number)) == (number != 3)));
        assert!(set.insert(address(999)) && set.contains(address(999)));
        assert_eq!(set.iter().count(), AddressSet::MAX);
    }
}
