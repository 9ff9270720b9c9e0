//! The loop of a measurement.

use std::time::Duration;

use am_measure::members::clock;
use am_measure::{Error, Watch};
use serde::{Deserialize, Serialize};

/// The most times of a measurement that are kept.
const KEPT: usize = 1 << 16;

/// What the caller has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// How long each call took, in nanoseconds; of pops, when each had its result. The warm-up's too.
    pub(crate) times: Vec<u64>,
    /// Those of the warm-up.
    pub(crate) early: usize,
    /// The writes that have run, other members' included.
    pub(crate) writes: u64,
    /// Whether a time has the number of its call, so that all of the warm-up are kept.
    pub(crate) is_numbered: bool,
}

impl Done {
    /// On a busy machine the only call may be one of the warm-up.
    pub(crate) fn counts_from(&self) -> usize {
        self.early.min(self.times.len().saturating_sub(1))
    }

    /// The last of the warm-up stands for all, so that these leave room.
    fn keep(&mut self, time: u64, is_early: bool) {
        if is_early && !self.is_numbered {
            self.times.clear();
            self.early = 1;
        } else if is_early {
            self.early += 1;
        }
        if self.times.len() < KEPT {
            self.times.push(time);
        }
    }
}

/// Call until the time after the warm-up is over, once at least. `once` returns the time that is kept.
pub(crate) fn repeat(
    watch: &Watch,
    warm_up: Duration,
    time: Duration,
    mut once: impl FnMut(&mut Done) -> Result<u64, Error>,
) -> Result<Done, Error> {
    let mut done = Done::default();
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let begin = clock().saturating_add(nanos(warm_up));
    let end = begin.saturating_add(nanos(time));
    loop {
        let now = clock();
        if now >= end && !done.times.is_empty() {
            return Ok(done);
        }
        watch.check()?;
        let time = once(&mut done)?;
        done.keep(time, now < begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_of_the_warm_up_is_kept_unless_they_are_numbered() {
        let kept = |is_numbered| {
            let mut done = Done { is_numbered, ..Done::default() };
            [(10, true), (20, true), (30, false)].into_iter().for_each(|(time, early)| done.keep(time, early));
            (done.counts_from(), done.times)
        };
        assert_eq!(kept(false), (1, vec![20, 30]));
        assert_eq!(kept(true), (2, vec![10, 20, 30]));
    }
}
