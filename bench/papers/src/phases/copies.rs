//! The bandwidth of memory copies by their size (the paper's figure 7): from where the caches have it or not, to where they
//! have it or not.
//!
//! A copy to or from memory goes to a place that was not touched since more than the last cache holds. The places of one
//! copy after the other are scattered, so that nothing is fetched in advance.

use std::hint::black_box;
use std::time::Instant;

use strum::VariantArray;

use super::caches::{Caches, clock_cost};
use am_measure::{Error, Progress, Watch};

pub(super) const SIZES: [usize; 11] = [16, 64, 128, 256, 512, 1024, 1500, 4096, 16 << 10, 64 << 10, 256 << 10];

/// Batches of copies of one size and kind in a round, each timed.
const BATCHES: usize = 40;
/// Bytes that a batch copies, if that takes no more copies than the other says.
const BATCH_BYTES: usize = 64 << 10;
const MAX_COPIES: usize = 256;
/// Scatters the places. It is odd, so that the places are all different.
const STRIDE: usize = 0x9e37_79b1;

/// Where a copy comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum Kind {
    CacheToCache,
    CacheToMemory,
    MemoryToMemory,
}

/// Bytes a second of each batch, by kind and size.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) batches: Vec<(Kind, usize, Vec<f64>)>,
}

impl Copies {
    /// Measure all of it once.
    pub(super) fn round(&mut self, caches: Caches, progress: &Progress, watch: &Watch) -> Result<(), Error> {
        let clock = clock_cost();
        let (from, mut to) = (vec![1u8; caches.evicting], vec![2u8; caches.evicting]);
        for size in SIZES {
            progress.say(&format!("copies of {size} B"));
            for kind in Kind::VARIANTS.iter().copied() {
                watch.check()?;
                let batches = batches(kind, size, (&from, &mut to), clock);
                match self.batches.iter_mut().find(|(its, of, _)| (*its, *of) == (kind, size)) {
                    Some((_, _, all)) => all.extend(batches),
                    None => self.batches.push((kind, size, batches)),
                }
            }
            progress.done();
        }
        Ok(())
    }

    /// The batches of one kind and size.
    pub(super) fn of(&self, kind: Kind, size: usize) -> &[f64] {
        let found = self.batches.iter().find(|(its, of, _)| (*its, *of) == (kind, size));
        found.map_or(&[], |(_, _, batches)| batches)
    }
}

/// The scattered places of one copy after the other, each of `slot` bytes.
struct Places {
    next: usize,
    count: usize,
    slot: usize,
}

impl Places {
    /// In memory of this length. A single place stays in the caches.
    fn new(length: usize, size: usize, is_scattered: bool) -> Places {
        let slot = size.next_multiple_of(super::caches::LINE);
        let count = if is_scattered { 1 << (length / slot).max(1).ilog2() } else { 1 };
        Places { next: 0, count, slot }
    }

    #[inline]
    fn next(&mut self) -> usize {
        self.next = self.next.wrapping_add(1);
        (self.next.wrapping_mul(STRIDE) & (self.count - 1)) * self.slot
    }
}

fn batches(kind: Kind, size: usize, (from, to): (&[u8], &mut [u8]), clock: u64) -> Vec<f64> {
    let copies = (BATCH_BYTES / size).clamp(1, MAX_COPIES);
    let mut sources = Places::new(from.len(), size, kind == Kind::MemoryToMemory);
    let mut targets = Places::new(to.len(), size, kind != Kind::CacheToCache);
    let mut batch = || {
        let start = Instant::now();
        for _ in 0..copies {
            let (source, target) = (sources.next(), targets.next());
            to[target..target + size].copy_from_slice(&from[source..source + size]);
            black_box(&to[target..target + size]);
        }
        let time = (start.elapsed().as_nanos() as u64).saturating_sub(clock).max(1);
        (copies * size) as f64 * 1e9 / time as f64
    };
    // What stays in the caches is fetched into them.
    batch();
    (0..BATCHES).map(|_| batch()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn places_are_all_different_and_within_the_memory() {
        for size in [1, 64, 1500] {
            let mut places = Places::new(1 << 20, size, true);
            let all: BTreeSet<usize> = (0..places.count).map(|_| places.next()).collect();
            assert_eq!(all.len(), places.count);
            assert!(all.iter().all(|place| place + size <= 1 << 20), "{size}");
            assert!(places.count * places.slot > 1 << 19, "most of it is used");
        }
        let mut one = Places::new(1 << 20, 64, false);
        assert_eq!([one.next(), one.next()], [0, 0]);
    }
}
