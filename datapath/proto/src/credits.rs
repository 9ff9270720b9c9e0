//! Credits: a credit is a frame of the receiver. All that are granted come out
//! of one budget, so that what is on its way to a node always has room there.

use std::mem;

/// The frames that a node promises to its senders.
#[derive(Debug)]
pub(crate) struct Budget {
    total: usize,
    granted: usize,
    /// Peers that have some of them.
    peers: usize,
    /// The most that was ever granted, rounded up.
    promised: usize,
    /// That rose since this was last asked.
    risen: bool,
}

/// What is promised rises in steps of so many.
const STEP: usize = 64;

/// Every flow and class may have so many, even from an empty budget: a node
/// with very many peers promises a little more than it has, and what does not
/// fit then is sent again.
const LEAST: usize = 4;

impl Budget {
    pub(crate) fn new(frames: usize) -> Self {
        Budget { total: frames, granted: 0, peers: 0, promised: 0, risen: false }
    }

    /// One more peer has credits.
    pub(crate) fn come(&mut self) {
        self.peers += 1;
    }

    /// One that had some is gone.
    pub(crate) fn go(&mut self) {
        self.peers -= 1;
    }

    /// Credits for a new flow and class: its part of the window of one alone,
    /// should all peers that are there send at once, or its share, where some
    /// do. Who uses them gets more. One peer's flows are not divided by: it has one link,
    /// which brings no more than ours takes.
    pub(crate) fn grant(&mut self, window: u16, share: u16) -> u16 {
        let part = (window as usize / self.peers.max(1)).min(share as usize).max(LEAST);
        self.grow(0, window.min(part as u16))
    }

    /// More credits for a flow and class that has some: what is wanted, but at
    /// most a quarter of what is left, so that the next flow finds some too.
    pub(crate) fn grow(&mut self, has: u16, wanted: u16) -> u16 {
        let free = self.total.saturating_sub(self.granted) / 4;
        let credits = free.max(LEAST.saturating_sub(has as usize)).min(wanted as usize) as u16;
        self.granted += credits as usize;
        if self.granted > self.promised {
            self.promised = self.granted.next_multiple_of(STEP);
            self.risen = true;
        }
        credits
    }

    /// Credits granted, all together.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// The most that [`Budget::granted`] ever was, rounded up.
    pub(crate) fn promised(&self) -> usize {
        self.promised
    }

    /// Whether that rose since this was last asked.
    #[inline]
    pub(crate) fn take_risen(&mut self) -> bool {
        mem::take(&mut self.risen)
    }

    /// A flow ended, or has more than its share.
    pub(crate) fn give_back(&mut self, credits: u16) {
        self.granted -= credits as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_flows_all_get_some() {
        let mut budget = Budget::new(2048);
        assert_eq!(budget.grant(256, 256), 256);
        let least = (0..10_000).map(|_| budget.grant(256, 256)).min();
        assert_eq!(least, Some(LEAST as u16));
    }

    #[test]
    fn what_ends_is_granted_again() {
        let mut budget = Budget::new(100);
        let first = budget.grant(256, 256);
        budget.give_back(first);
        assert_eq!(budget.grant(256, 256), first);
    }

    #[test]
    fn an_overdrawn_budget_has_nothing_until_that_is_back() {
        let mut budget = Budget::new(8);
        let credits: Vec<u16> = (0..4).map(|_| budget.grant(4, 4)).collect();
        assert_eq!((credits, budget.granted()), (vec![4; 4], 16));
        budget.give_back(4);
        budget.give_back(3);
        assert_eq!((budget.grow(4, 10), budget.grow(1, 10)), (0, 3), "the least, and no more");
        assert_eq!((budget.granted(), budget.promised()), (12, 64));
    }
}
