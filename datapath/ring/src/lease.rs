//! Tracks which places other threads hold, and which have come back.

use crate::sync::{Arc, AtomicU32, Ordering::*};

/// Hands out numbered places, and learns which of them nobody holds any more. An example is a credit for each owned
/// message, which returns when the frame is home. Leases move to any thread; only the lender looks.
///
/// ```
/// use am_ring::LeaseTable;
///
/// let mut lender = LeaseTable::new(2);
/// let loan = lender.lease().expect("two places are free");
/// let place = loan.place();
/// assert_eq!(lender.reclaim(), None);
/// std::thread::spawn(move || drop(loan)).join().unwrap();
/// assert_eq!(lender.reclaim(), Some(place));
/// ```
#[derive(Debug)]
pub struct LeaseTable {
    ledger: Arc<Ledger>,
    out: Vec<u32>,
    free: Vec<u32>,
    /// How many entries of the ledger's `gone` have been found.
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
    /// The number of loans of each place.
    loans: Box<[AtomicU32]>,
    /// How many places were given back, ever: one look says whether there is anything to find.
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

    /// One more loan of a place in use; `None` if it is not.
    pub fn lease_again(&mut self, place: usize) -> Option<Lease> {
        let place = *self.out.iter().find(|out| **out as usize == place)?;
        if self.ledger.loans[place as usize].fetch_add(1, Relaxed) == 0 {
            // It was given back, and not found yet: do not find it any more.
            self.found = self.found.wrapping_add(1);
        }
        Some(Lease { ledger: self.ledger.clone(), place })
    }

    /// A place that was given back. Whatever its holders did before has happened.
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
        // Release: what we did comes before the lender finds the place empty.
        if self.ledger.loans[self.place()].fetch_sub(1, Release) == 1 {
            self.ledger.gone.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Otherwise each look would go through all places in use.
    #[test]
    fn what_was_lent_again_leaves_nothing_to_look_for() {
        let mut lender = LeaseTable::new(1);
        let first = lender.lease().unwrap();
        let place = first.place();
        drop(first);
        drop(lender.lease_again(place));
        assert_eq!(lender.reclaim(), Some(place));
        assert_eq!(lender.ledger.gone.load(Relaxed), lender.found);
    }
}
