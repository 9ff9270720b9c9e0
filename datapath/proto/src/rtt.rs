//! Round-trip time, estimated as by Jacobson and Karels for TCP, in nanoseconds.

use crate::config::Config;

/// The round trip before the first sample, and the longest pause of the reject queue, in nanoseconds. Retransmission
/// time-outs may be much longer on a transport that loses nothing.
const GUESS: u64 = 250_000;
const LONGEST_PAUSE: u64 = 50_000_000;

/// The configured times, in nanoseconds: every message needs one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) ack_delay: u64,
    /// Messages, not nanoseconds.
    pub(crate) ack_every: u16,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Waits {
    pub(crate) fn new(config: &Config) -> Self {
        let nanoseconds = |duration: core::time::Duration| duration.as_nanos() as u64;
        Waits {
            ack_delay: nanoseconds(config.ack_delay),
            ack_every: config.ack_every,
            least: nanoseconds(config.min_timeout),
            most: nanoseconds(config.max_timeout),
        }
    }
}

/// The smoothed round-trip time and its deviation, up to four seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u32,
    deviation: u32,
    /// Time-outs in a row without an acknowledgement in between.
    pub(crate) backoff: u8,
    /// Requests for credit since there was any.
    pub(crate) starved: u8,
}

impl Rtt {
    /// Record a sample: the round trip of a message that was sent only once (Karn's rule).
    pub(crate) fn sample(&mut self, nanoseconds: u64) {
        let sample = nanoseconds.clamp(1, u32::MAX as u64);
        if self.smoothed == 0 {
            self.smoothed = sample as u32;
            self.deviation = sample as u32 / 2;
            return;
        }
        let (smoothed, deviation) = (self.smoothed as u64, self.deviation as u64);
        self.deviation = ((3 * deviation + smoothed.abs_diff(sample)) / 4) as u32;
        self.smoothed = ((7 * smoothed + sample) / 8).max(1) as u32;
    }

    /// Whether there was a sample.
    pub(crate) fn is_measured(&self) -> bool {
        self.smoothed > 0
    }

    /// The retransmission time-out. It includes the time that an acknowledgement may wait for a message to travel with.
    pub(crate) fn timeout(&self, waits: &Waits) -> u64 {
        let estimate = self.smoothed as u64 + 4 * self.deviation as u64 + waits.ack_delay;
        (estimate.max(waits.least) << self.backoff.min(20)).min(waits.most)
    }

    /// How long a rejected message waits before it is sent again: one round trip, doubled `backoff` times.
    pub(crate) fn pause(&self, waits: &Waits, backoff: u8) -> u64 {
        let way = if self.is_measured() { self.smoothed as u64 } else { waits.least.min(GUESS) };
        (way << backoff.min(20)).min(waits.most).min(LONGEST_PAUSE)
    }

    /// How long after its last transmission a message may be sent again before its time-out: one and a half round
    /// trips.
    pub(crate) fn patience(&self) -> u64 {
        let way = if self.is_measured() { self.smoothed as u64 } else { GUESS };
        way * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits { ack_delay: 0, ack_every: 32, least: 100_000, most: 50_000_000 };

    #[test]
    fn follows_the_samples_and_backs_off() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(1_000_000);
        }
        assert_eq!(rtt.patience(), 1_500_000);
        let settled = rtt.timeout(&WAITS);
        assert!((1_000_000..1_100_000).contains(&settled), "{settled:?}");
        rtt.backoff = 3;
        assert_eq!(rtt.timeout(&WAITS), settled * 8);
        rtt.backoff = 200;
        assert_eq!(rtt.timeout(&WAITS), WAITS.most);
    }

    #[test]
    fn never_below_the_least() {
        let mut rtt = Rtt::default();
        rtt.sample(5_000);
        assert_eq!(rtt.timeout(&WAITS), WAITS.least);
    }
}
