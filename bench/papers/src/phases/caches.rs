//! The caches of the processor, and how they are emptied.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use am_measure::{quantile, with_unit};

/// What is assumed of the last cache if the system does not tell.
const UNKNOWN: usize = 32 << 20;
/// The least and the most memory that is read to empty it.
const EVICTING: (usize, usize) = (8 << 20, 512 << 20);
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// Pairs of readings that give the clock's cost.
const READINGS: usize = 10_001;

/// The sizes that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    /// Of the last cache.
    pub(super) last: usize,
    /// What is read to empty all of them.
    pub(super) evicting: usize,
}

impl Caches {
    /// Those of this core, or of the first.
    pub(super) fn of(core: Option<usize>) -> Caches {
        let files = (0..8)
            .map(|index| format!("/sys/devices/system/cpu/cpu{}/cache/index{index}/size", core.unwrap_or_default()));
        let sizes = files.filter_map(|file| with_unit(fs::read_to_string(file).ok()?.trim()));
        Caches::with(sizes.max().unwrap_or(UNKNOWN))
    }

    fn with(last: usize) -> Caches {
        Caches { last, evicting: (2 * last).clamp(EVICTING.0, EVICTING.1) }
    }
}

/// Memory that takes the place of everything else in the caches.
pub(super) struct Evictor(Vec<u8>);

impl Evictor {
    pub(super) fn new(caches: Caches) -> Evictor {
        // Not zero: every page is one of its own.
        Evictor(vec![1; caches.evicting])
    }

    /// Read a byte of each line.
    pub(super) fn evict(&self) {
        black_box(self.0.iter().step_by(LINE).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    }
}

/// Read every byte, as a program that uses a message does.
#[inline]
pub(super) fn touch(message: &[u8]) {
    black_box(message.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
}

/// What the clock itself adds to a time: the median of two readings right after each other, in nanoseconds.
pub(super) fn clock_cost() -> u64 {
    let pair = |_| {
        let start = Instant::now();
        start.elapsed().as_nanos() as u64
    };
    let pairs: Vec<u64> = (0..READINGS).map(pair).collect();
    quantile(&pairs, 0.5).unwrap_or_default()
}
