//! Where the next frames will be, known before their descriptors are read.
//!
//! ```text
//!   the kernel writes   frame ──▶ descriptor ──▶ producer index
//!   we read             producer index ──▶ descriptor ──▶ frame
//! ```
//!
//! Each is a line of memory in another core's cache, and each has to be read
//! before the next is known: 50 ns and more a line. But in copy mode the kernel
//! fills blanks in the order in which it got them, so that the frame's line can
//! be fetched together with the descriptor's.

use std::collections::VecDeque;

/// Blanks in the fill ring, by address, in order.
pub(crate) struct Expected {
    blanks: VecDeque<usize>,
    /// More cannot be in the fill ring.
    most: usize,
    /// Frames come in this order.
    in_order: bool,
}

impl Expected {
    pub(crate) fn new(entries: usize, zero_copy: bool) -> Expected {
        Expected { blanks: VecDeque::with_capacity(entries), most: entries, in_order: !zero_copy }
    }

    /// A blank goes into the fill ring.
    #[inline]
    pub(crate) fn put(&mut self, address: usize) {
        if self.in_order {
            if self.blanks.len() == self.most {
                return self.give_up();
            }
            self.blanks.push_back(address);
        }
    }

    /// Where the next `count` frames should be.
    #[inline]
    pub(crate) fn next(&self, count: usize) -> impl Iterator<Item = usize> {
        self.blanks.iter().copied().take(count)
    }

    /// A frame has arrived there.
    #[inline]
    pub(crate) fn arrived(&mut self, address: usize) {
        if self.blanks.front() == Some(&address) {
            self.blanks.pop_front();
        } else if self.in_order {
            self.skip_to(address);
        }
    }

    /// Frames come from elsewhere, or start elsewhere in their chunks: a list
    /// that only grows is searched in vain for each.
    #[cold]
    fn give_up(&mut self) {
        self.in_order = false;
        self.blanks.clear();
    }

    /// The kernel has put some aside: what it could not deliver goes to others first.
    #[cold]
    fn skip_to(&mut self, address: usize) {
        if let Some(at) = self.blanks.iter().position(|&blank| blank == address) {
            self.blanks.drain(..=at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_come_back_in_order_or_the_order_is_found_again() {
        let mut expected = Expected::new(8, false);
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
        let mut expected = Expected::new(4, false);
        for n in 0..100 {
            expected.put(n * 10);
            expected.arrived(n * 10 + 1);
        }
        assert_eq!(expected.next(9).count(), 0);
    }

    #[test]
    fn of_a_nic_nothing_is_expected() {
        let mut expected = Expected::new(8, true);
        expected.put(10);
        expected.arrived(20);
        assert_eq!(expected.next(1).count(), 0);
    }
}
