//! Tracks numbered places that other threads hold, and finds those that were returned.

use crate::sync::{Arc, AtomicU32, Ordering::*};

/// Leases numbered places, and finds out which were returned. It is used for the credits of owned messages: a credit
/// returns when the program drops the message. A [`Lease`] can move to any thread; only the table searches.
///
/// ```
/// use am_ring::LeaseTable;
///
/// let mut table = LeaseTable::new(2);
/// let lease = table.lease().expect("two places are free");
/// let place = lease.place();
/// assert_eq!(table.reclaim(), None);
/// std::thread::spawn(move || drop(lease)).join().unwrap();
/// assert_eq!(table.reclaim(), Some(place));
/// ```
#[derive(Debug)]
pub struct LeaseTable {
    ledger: Arc<Ledger>,
    out: Vec<u32>,
    free: Vec<u32>,
    /// How many of the ledger's returned places [`reclaim`](Self::reclaim) has found.
    found: u32,
}

/// A place in use, until this is dropped.
#[derive(Debug)]
pub struct Lease {
    ledger: Arc<Ledger>,
    place: u32,
}

#[derive(Debug)]
struct Ledger {
    /// The number of leases of each place.
    loans: Box<[AtomicU32]>,
    /// How many places were returned, ever. If all were found, no search is needed.
    gone: AtomicU32,
}

impl LeaseTable {
    /// With this many places. Nothing is allocated later.
    pub fn new(places: usize) -> LeaseTable {
        let loans = (0..places).map(|_| AtomicU32::new(0)).collect();
        let ledger = Arc::new(Ledger { loans, gone: AtomicU32::new(0) });
        LeaseTable { ledger, out: Vec::with_capacity(places), free: (0..places as u32).rev().collect(), found: 0 }
    }

    /// Whether no place is in use.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// A free place; `None` if there is none.
    pub fn lease(&mut self) -> Option<Lease> {
        let place = self.free.pop()?;
        self.out.push(place);
        self.ledger.loans[place as usize].fetch_add(1, Relaxed);
        Some(Lease { ledger: self.ledger.clone(), place })
    }

    /// One more lease of a place in use; `None` if it is not in use.
    pub fn lease_again(&mut self, place: usize) -> Option<Lease> {
        let place = *self.out.iter().find(|out| **out as usize == place)?;
        if self.ledger.loans[place as usize].fetch_add(1, Relaxed) == 0 {
            // It was returned and not found yet. Count it as found, because it is in use again.
            self.found = self.found.wrapping_add(1);
        }
        Some(Lease { ledger: self.ledger.clone(), place })
    }

    /// A place that was returned. Whatever its holders did before has happened.
    pub fn reclaim(&mut self) -> Option<usize> {
        if self.ledger.gone.load(Relaxed) == self.found {
            return None;
        }
        // Acquire: pairs with the last decrement, and so with all before it.
        let is_gone = |place: &u32| self.ledger.loans[*place as usize].load(Acquire) == 0;
        let place = self.out.swap_remove(self.out.iter().position(is_gone)?);
        self.found = self.found.wrapping_add(1);
        self.free.push(place);
        Some(place as usize)
    }
}

impl Lease {
    /// Its number, less than the number of places.
    #[inline]
    pub fn place(&self) -> usize {
        self.place as usize
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Release: what we did comes before the table finds the place returned.
        if self.ledger.loans[self.place()].fetch_sub(1, Release) == 1 {
            self.ledger.gone.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Otherwise each call of `reclaim` would search all places in use.
    #[test]
    fn what_was_lent_again_leaves_nothing_to_look_for() {
        let mut table = LeaseTable::new(1);
        let first = table.lease().unwrap();
        let place = first.place();
        drop(first);
        drop(table.lease_again(place));
        assert_eq!(table.reclaim(), Some(place));
        assert_eq!(table.ledger.gone.load(Relaxed), table.found);
    }
}
