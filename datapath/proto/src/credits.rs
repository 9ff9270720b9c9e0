//! Credits. A credit is a frame of the receiver. All grants come out of one budget, so each message in flight to a node
//! has room there.

use std::mem;

/// The frames that a node grants to its senders.
#[derive(Debug)]
pub(crate) struct CreditBudget {
    total: usize,
    /// The credits granted, all flows together.
    pub(crate) granted: usize,
    /// How many of `granted` belonged to idle flows at the last keepalive round. They do not count as used: otherwise many
    /// idle flows would leave an active one only [`MIN_CREDITS`]. If too many of their senders use them, requests are
    /// rejected.
    pub(crate) idle: usize,
    pub(crate) peers: usize,
    /// The largest sum ever granted, rounded up.
    peak: usize,
    /// The peak rose since this was last asked.
    peak_rose: bool,
}

/// The peak is rounded up to a multiple of this.
const PEAK_STEP: usize = 64;

/// Waiting requests must leave room for replies. Otherwise two nodes full of each other's requests would wait for each
/// other for ever.
pub(crate) fn room_for_requests(room: usize) -> usize {
    (room - room.div_ceil(4)).max(1)
}

/// Each flow and class gets at least this many, even from an empty budget. A node with very many peers therefore grants a
/// little more than it has, and rejects requests that find no room.
const MIN_CREDITS: usize = 4;

impl CreditBudget {
    pub(crate) fn new(frames: usize) -> Self {
        CreditBudget { total: frames, granted: 0, idle: 0, peers: 0, peak: 0, peak_rose: false }
    }

    /// Credits for a new flow and class: the window divided by the number of peers, in case all of them send at once,
    /// or the fair share if that is smaller. A sender that uses them gets more. Several flows of one peer count as one
    /// peer, because they share its link.
    pub(crate) fn grant(&mut self, window: u16, share: u16) -> u16 {
        let part = (window as usize / self.peers.max(1)).min(share as usize).max(MIN_CREDITS);
        self.grow(0, window.min(part as u16))
    }

    /// More credits for a flow and class that has some already: the wanted number, but at most a quarter of the free ones,
    /// so that some are left for the next flow.
    pub(crate) fn grow(&mut self, has: u16, wanted: u16) -> u16 {
        let free = self.total.saturating_sub(self.granted.saturating_sub(self.idle)) / 4;
        let credits = free.max(MIN_CREDITS.saturating_sub(has as usize)).min(wanted as usize) as u16;
        self.granted += credits as usize;
        if self.granted > self.peak {
            self.peak = self.granted.next_multiple_of(PEAK_STEP);
            self.peak_rose = true;
        }
        credits
    }

    /// The largest value of [`CreditBudget::granted`] so far, rounded up, if it rose since this was last asked.
    #[inline]
    pub(crate) fn take_new_peak(&mut self) -> Option<usize> {
        mem::take(&mut self.peak_rose).then_some(self.peak)
    }

    /// A flow ended, or a used credit was withheld.
    pub(crate) fn release(&mut self, credits: u16) {
        self.granted -= credits as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_flows_gets_the_minimum() {
        let mut budget = CreditBudget::new(2048);
        assert_eq!(budget.grant(256, 256), 256);
        let least = (0..10_000).map(|_| budget.grant(256, 256)).min();
        assert_eq!(least, Some(MIN_CREDITS as u16));
    }

    #[test]
    fn returned_credits_are_granted_again() {
        let mut budget = CreditBudget::new(100);
        let first = budget.grant(256, 256);
        budget.release(first);
        assert_eq!(budget.grant(256, 256), first);
    }

    #[test]
    fn credits_of_idle_flows_take_nothing_from_active_ones() {
        let mut budget = CreditBudget::new(2048);
        (0..10_000).for_each(|_| _ = budget.grant(256, 256));
        let idle = budget.granted;
        let active = budget.grant(256, 256);
        assert_eq!((active, budget.grow(active, 252)), (MIN_CREDITS as u16, 0));
        budget.idle = idle;
        assert_eq!(budget.grow(active, 252), 252);
    }

    #[test]
    fn an_overdrawn_budget_grants_only_the_minimum() {
        let mut budget = CreditBudget::new(8);
        let credits: Vec<u16> = (0..4).map(|_| budget.grant(4, 4)).collect();
        assert_eq!((credits, budget.granted), (vec![4; 4], 16));
        budget.release(4);
        budget.release(3);
        assert_eq!((budget.grow(4, 10), budget.grow(1, 10)), (0, 3), "the least, and no more");
        assert_eq!((budget.granted, budget.take_new_peak(), budget.take_new_peak()), (12, Some(64), None));
    }
}
