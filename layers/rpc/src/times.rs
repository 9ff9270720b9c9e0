//! How long something took, by its distribution. Each call adds to it, so adding is a few instructions, and does not allocate.

use std::cell::Cell;
use std::time::Duration;

/// Buckets of each power of two: a time is known to 3 per cent.
const STEPS: u64 = 32;

/// Above [`STEPS`] nanoseconds there are as many buckets for each further bit, up to times of over an hour.
const BUCKETS: usize = STEPS as usize * 38;

/// Counts of times, by their nanoseconds.
pub(crate) struct Times {
    counts: Box<[Cell<u32>]>,
    max: Cell<u64>,
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: vec![Cell::new(0); BUCKETS].into(), max: Cell::new(0) }
    }
}

/// The bucket of a time: its five highest bits, and how many are below them.
#[inline]
fn bucket(ns: u64) -> usize {
    let below = (ns | STEPS).ilog2() - STEPS.ilog2();
    let at = u64::from(below) * STEPS + (ns >> below);
    (at as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn longest(bucket: usize) -> u64 {
    let below = (bucket as u64 / STEPS).saturating_sub(1);
    (((bucket as u64 - below * STEPS) + 1) << below) - 1
}

impl Times {
    #[inline]
    pub(crate) fn add(&self, ns: u64) {
        let count = &self.counts[bucket(ns)];
        count.set(count.get().saturating_add(1));
        self.max.set(self.max.get().max(ns));
    }

    /// How many.
    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(count.get())).sum()
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max.get())
    }

    /// The times that these shares of them, in their order, did not exceed. Zero if there is none.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Duration; N] {
        let all = self.len() as f64;
        let mut counts = self.counts.iter().enumerate();
        let (mut seen, mut at) = (0, Duration::ZERO);
        shares.map(|share| {
            let wanted = (all * share).ceil() as u64;
            while seen < wanted
                && let Some((bucket, count)) = counts.next()
            {
                seen += u64::from(count.get());
                at = Duration::from_nanos(longest(bucket)).min(self.max());
            }
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_a_bucket_that_is_narrow() {
        let mut last = 0;
        for ns in (0..20_000).chain((15..41).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let at = bucket(ns);
            assert!(at == last || at == last + 1 || ns > 20_000, "{ns}");
            last = at;
            let most = longest(at);
            assert!(ns <= most && (most - ns) * STEPS <= ns, "{ns} {most}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(longest(BUCKETS - 1) > Duration::from_secs(3600).as_nanos() as u64);
    }

    #[test]
    fn a_quantile_is_a_time_that_so_many_did_not_exceed() {
        let times = Times::default();
        assert_eq!((times.quantiles([0.5]), times.max()), ([Duration::ZERO], Duration::ZERO));
        (1..=1000).for_each(|us| times.add(us * 1000));
        let [half, most, all] = times.quantiles([0.5, 0.99, 1.0]);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        assert!((500.0..516.0).contains(&us(half)) && (990.0..=1000.0).contains(&us(most)), "{half:?} {most:?}");
        assert_eq!((times.len(), times.max(), all), (1000, Duration::from_millis(1), Duration::from_millis(1)));
    }
}
