//! Round-trip time, estimated as Jacobson and Karels did for TCP, in nanoseconds.

use core::time::Duration;

/// Smoothed round-trip time and its deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u64,
    deviation: u64,
    /// Time-outs in a row without an acknowledgement in between.
    pub(crate) backoff: u8,
}

impl Rtt {
    /// A message was acknowledged that had been sent once only (Karn's rule).
    pub(crate) fn sample(&mut self, nanoseconds: u64) {
        if self.smoothed == 0 {
            self.smoothed = nanoseconds.max(1);
            self.deviation = nanoseconds / 2;
            return;
        }
        let error = self.smoothed.abs_diff(nanoseconds);
        self.deviation = (3 * self.deviation + error) / 4;
        self.smoothed = ((7 * self.smoothed + nanoseconds) / 8).max(1);
    }

    /// The estimate; 0 before the first sample.
    pub(crate) fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// When a message counts as lost. The acknowledgement may wait `ack_delay`
    /// for something to ride on.
    pub(crate) fn timeout(&self, ack_delay: Duration, least: Duration, most: Duration) -> Duration {
        let estimate = Duration::from_nanos(self.smoothed + 4 * self.deviation) + ack_delay;
        (estimate.max(least) * (1 << self.backoff.min(20))).min(most)
    }

    /// A message is sent again before its time-out only if so long ago it was
    /// sent last: a round trip and a half.
    pub(crate) fn patience(&self) -> Duration {
        self.smoothed() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_micros(100);
    const MOST: Duration = Duration::from_millis(50);

    #[test]
    fn follows_the_samples_and_backs_off() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(1_000_000);
        }
        assert_eq!(rtt.smoothed(), Duration::from_millis(1));
        let settled = rtt.timeout(Duration::ZERO, LEAST, MOST);
        assert!(settled >= Duration::from_millis(1) && settled < Duration::from_micros(1100), "{settled:?}");
        rtt.backoff = 3;
        assert_eq!(rtt.timeout(Duration::ZERO, LEAST, MOST), settled * 8);
        rtt.backoff = 200;
        assert_eq!(rtt.timeout(Duration::ZERO, LEAST, MOST), MOST);
    }

    #[test]
    fn never_below_the_least() {
        let mut rtt = Rtt::default();
        rtt.sample(5_000);
        assert_eq!(rtt.timeout(Duration::ZERO, LEAST, MOST), LEAST);
    }
}
