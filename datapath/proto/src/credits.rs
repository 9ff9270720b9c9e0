//! Credits: a credit is a frame of the receiver. All that are granted come out
//! of one budget, so that what is on its way to a node always has room there.

/// The frames that a node promises to its senders.
#[derive(Debug)]
pub(crate) struct Budget {
    free: usize,
    granted: usize,
}

/// Every flow and class gets at least so many, even from an empty budget: a
/// node with very many peers promises a little more than it has, and what does
/// not fit then is sent again.
const LEAST: u16 = 4;

impl Budget {
    pub(crate) fn new(frames: usize) -> Self {
        Budget { free: frames, granted: 0 }
    }

    /// Credits for one flow and class: what is wanted, but at most a quarter
    /// of what is left, so that the next flow finds some too.
    pub(crate) fn grant(&mut self, wanted: u16) -> u16 {
        let credits = (self.free / 4).min(wanted as usize) as u16;
        let credits = credits.max(LEAST.min(wanted));
        self.free = self.free.saturating_sub(credits as usize);
        self.granted += credits as usize;
        credits
    }

    /// Credits granted, all together.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// A flow ended; `total` bounds what an overdrawn budget gets back.
    pub(crate) fn give_back(&mut self, credits: u16, total: usize) {
        self.free = (self.free + credits as usize).min(total);
        self.granted -= credits as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_flows_all_get_some() {
        let mut budget = Budget::new(2048);
        assert_eq!(budget.grant(256), 256);
        let least = (0..10_000).map(|_| budget.grant(256)).min();
        assert_eq!(least, Some(LEAST));
    }

    #[test]
    fn what_ends_is_granted_again() {
        let mut budget = Budget::new(100);
        let first = budget.grant(256);
        budget.give_back(first, 100);
        assert_eq!(budget.grant(256), first);
    }
}
