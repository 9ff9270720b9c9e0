//! Predicts where the next frames will be, so that they can be prefetched before their descriptors are read.
//!
//! ```text
//!   the kernel writes   frame ──▶ descriptor ──▶ producer index
//!   we read             producer index ──▶ descriptor ──▶ frame
//! ```
//!
//! Each step reads a cache line that another core has written, and needs the previous one: 50 ns and more a line. In
//! copy mode the kernel fills buffers in the order in which it got them. So the frame's line can be fetched together
//! with the descriptor's.

use std::collections::VecDeque;

/// The addresses of the buffers in the fill ring, in order.
pub(crate) struct PrefetchQueue {
    addresses: VecDeque<u64>,
    /// The size of the fill ring.
    capacity: usize,
    /// Whether frames arrive in this order.
    is_in_order: bool,
}

impl PrefetchQueue {
    pub(crate) fn new(entries: usize, is_in_order: bool) -> PrefetchQueue {
        PrefetchQueue { addresses: VecDeque::with_capacity(entries), capacity: entries, is_in_order }
    }

    /// A buffer goes into the fill ring.
    #[inline]
    pub(crate) fn put(&mut self, address: u64) {
        if self.is_in_order {
            if self.addresses.len() == self.capacity {
                return self.disable();
            }
            self.addresses.push_back(address);
        }
    }

    /// The addresses where the next `count` frames should be.
    #[inline]
    pub(crate) fn next(&self, count: usize) -> impl Iterator<Item = u64> {
        self.addresses.iter().copied().take(count)
    }

    /// A frame has arrived at this address.
    #[inline]
    pub(crate) fn arrived(&mut self, address: u64) {
        if self.addresses.front() == Some(&address) {
            self.addresses.pop_front();
        } else if self.is_in_order {
            self.skip_to(address);
        }
    }

    /// Frames arrive at other addresses, or start elsewhere in their chunks. Searching an ever longer list for each
    /// would be useless.
    #[cold]
    fn disable(&mut self) {
        self.is_in_order = false;
        self.addresses.clear();
    }

    /// The kernel has skipped some buffers: those of frames that it could not deliver are used first by other frames.
    #[cold]
    fn skip_to(&mut self, address: u64) {
        if let Some(at) = self.addresses.iter().position(|&blank| blank == address) {
            self.addresses.drain(..=at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_come_back_in_order_or_the_order_is_found_again() {
        let mut expected = PrefetchQueue::new(8, true);
        (0..6).for_each(|n| expected.put(n * 10));
        assert_eq!(expected.next(2).collect::<Vec<_>>(), [0, 10]);
        expected.arrived(0);
        expected.arrived(30);
        assert_eq!(expected.next(9).collect::<Vec<_>>(), [40, 50]);
        expected.arrived(10);
        expected.arrived(40);
        assert_eq!(expected.next(9).collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn frames_that_come_from_elsewhere_are_not_looked_for_for_ever() {
        let mut expected = PrefetchQueue::new(4, true);
        for n in 0..100 {
            expected.put(n * 10);
            expected.arrived(n * 10 + 1);
        }
        assert_eq!(expected.next(9).count(), 0);
    }

    #[test]
    fn nothing_is_prefetched_in_zero_copy_mode() {
        let mut expected = PrefetchQueue::new(8, false);
        expected.put(10);
        expected.arrived(20);
        assert_eq!(expected.next(1).count(), 0);
    }
}
