//! How many blanks wait in the fill ring.
//!
//! In copy mode the kernel writes to them in turn. Few stay in the caches, and
//! in the TLB, of which the kernel and we each need an entry a page: with 2048
//! instead of 256 a round trip over veth takes 5 % longer. Too few, and what
//! arrives in a burst is lost. So it starts with few, and grows when the kernel
//! says that it has found none.

/// In copy mode, to begin with.
const FEW: usize = 256;

/// The level, and what it is learned from.
pub(crate) struct FillLevel {
    level: usize,
    entries: usize,
    /// Frames in bursts as long as they can be, one after the other.
    in_a_row: usize,
    /// How often the kernel had found none when last asked.
    empty: u64,
}

impl FillLevel {
    /// For a ring of so many entries. A NIC takes blanks into a ring of its
    /// own, so that it needs all that it can get.
    pub(crate) fn new(entries: usize, zero_copy: bool) -> FillLevel {
        let level = if zero_copy { entries } else { FEW.min(entries) };
        FillLevel { level, entries, in_a_row: 0, empty: 0 }
    }

    pub(crate) fn get(&self) -> usize {
        self.level
    }

    /// A burst has come out of the receive ring, `full` where there may be
    /// more. When as much has come as blanks were there, the kernel is asked
    /// how often it has found none; returns how many more there should be.
    #[inline]
    pub(crate) fn on_burst(&mut self, frames: usize, full: bool, empty: impl FnOnce() -> u64) -> usize {
        if !full {
            self.in_a_row = 0;
            return 0;
        }
        self.in_a_row += frames;
        if self.level == self.entries || self.in_a_row < self.level { 0 } else { self.ask(empty()) }
    }

    #[cold]
    fn ask(&mut self, empty: u64) -> usize {
        self.in_a_row = 0;
        if empty == std::mem::replace(&mut self.empty, empty) {
            return 0;
        }
        let before = self.level;
        self.level = (2 * before).min(self.entries);
        self.level - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_when_the_kernel_has_found_none() {
        let mut level = FillLevel::new(1024, false);
        let mut burst = |empty| level.on_burst(64, true, || empty);
        assert_eq!([burst(9), burst(9), burst(9), burst(9)], [0, 0, 0, 256], "as many as there were blanks");
        assert_eq!((0..16).map(|_| burst(9)).sum::<usize>(), 0, "no news");
        assert_eq!((0..16).map(|_| burst(10)).sum::<usize>(), 512, "as many as the ring holds");
        assert_eq!((0..99).map(burst).sum::<usize>(), 0, "and no more");
    }

    #[test]
    fn is_not_asked_between_short_bursts() {
        let mut level = FillLevel::new(1024, false);
        for _ in 0..99 {
            assert_eq!(level.on_burst(64, true, || unreachable!()), 0);
            assert_eq!(level.on_burst(63, false, || unreachable!()), 0);
        }
        assert_eq!(level.get(), 256);
    }

    #[test]
    fn a_nic_gets_all() {
        assert_eq!(FillLevel::new(1024, true).get(), 1024);
        assert_eq!(FillLevel::new(64, false).get(), 64);
    }
}
