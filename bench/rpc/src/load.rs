//! Calls that keep a server busy: each caller begins its next call when its last one has ended, and each call is timed.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use am_measure::{Amount, Error, RoundTrips, Watch, round_trips};
use futures_util::future::try_join_all;

/// What one measurement has found.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The time of each call, in nanoseconds.
    pub(crate) round_trips: RoundTrips,
    pub(crate) calls_per_s: f64,
}

/// Times calls. Those that end during the warm-up do not count.
#[derive(Debug)]
pub(crate) struct Clocked {
    begin: Instant,
    end: Instant,
    round_trips: RoundTrips,
    /// The calls that ended in time.
    in_time: u64,
    /// When the last call ended. Each caller's last one ends too late.
    last: Instant,
}

impl Clocked {
    pub(crate) fn new(amount: Amount) -> Clocked {
        let begin = Instant::now() + amount.warm_up;
        Clocked { begin, end: begin + amount.time, round_trips: round_trips(), in_time: 0, last: begin }
    }

    /// A call that was begun then has ended now. Returns when the next one begins, unless the time is over. The clock is read once a
    /// call: the end of one is the start of the next.
    #[inline]
    pub(crate) fn ended(&mut self, begun: Instant) -> Option<Instant> {
        self.ended_at(begun, Instant::now())
    }

    #[inline]
    fn ended_at(&mut self, begun: Instant, now: Instant) -> Option<Instant> {
        if now < self.begin {
            return Some(now);
        }
        self.round_trips.saturating_record((now - begun).as_nanos() as u64);
        if now <= self.end {
            self.in_time += 1;
            return Some(now);
        }
        self.last = now;
        None
    }

    pub(crate) fn sample(self) -> Sample {
        // Calls may take longer than the measurement: then count until the last one has ended.
        let late = self.round_trips.len() - self.in_time;
        let (calls, time) = match self.in_time {
            few if few < late => (self.round_trips.len(), self.last - self.begin),
            calls => (calls, self.end - self.begin),
        };
        Sample {
            round_trips: self.round_trips,
            calls_per_s: calls as f64 / time.max(Duration::from_nanos(1)).as_secs_f64(),
        }
    }
}

/// Let each of these callers call again and again, until the time is over.
pub(crate) async fn keep_busy<C>(
    callers: impl Iterator<Item = C>,
    amount: Amount,
    watch: &Watch,
) -> Result<Sample, Error>
where
    C: AsyncFnMut() -> Result<(), Error>,
{
    let clocked = RefCell::new(Clocked::new(amount));
    let shared = &clocked;
    try_join_all(callers.map(async |mut call| {
        let mut begun = Instant::now();
        loop {
            call().await?;
            watch.check()?;
            let next = shared.borrow_mut().ended(begun);
            match next {
                Some(next) => begun = next,
                None => return Ok::<(), Error>(()),
            }
        }
    }))
    .await?;
    Ok(clocked.into_inner().sample())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_calls_that_end_in_time_count_for_the_rate() {
        let amount = Amount { rounds: 1, time: 10 * MS, warm_up: 2 * MS };
        let mut clocked = Clocked::new(amount);
        let start = clocked.begin - amount.warm_up;
        for (from, to, goes_on) in [(0, 1, true), (1, 3, true), (3, 7, true), (7, 12, true), (12, 13, false)] {
            assert_eq!(clocked.ended_at(start + from * MS, start + to * MS).is_some(), goes_on, "{from} to {to}");
        }
        let sample = clocked.sample();
        assert_eq!((sample.round_trips.len(), sample.calls_per_s), (4, 300.0));
        assert!(sample.round_trips.max() >= 5_000_000, "the one that began before the warm-up had ended, too");
    }

    #[test]
    fn calls_longer_than_the_measurement_count_until_the_last() {
        let mut clocked = Clocked::new(Amount { rounds: 1, time: MS, warm_up: MS });
        let begin = clocked.begin;
        assert!(clocked.ended_at(begin - MS, begin + MS).is_some());
        assert!(clocked.ended_at(begin - MS, begin + 4 * MS).is_none());
        assert!(clocked.ended_at(begin + MS, begin + 6 * MS).is_none());
        let sample = clocked.sample();
        assert_eq!((sample.round_trips.len(), sample.calls_per_s), (3, 500.0));
    }
}
