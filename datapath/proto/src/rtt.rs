//! Round-trip time, estimated as by Jacobson and Karels for TCP, in nanoseconds.

use core::time::Duration;

use crate::config::Config;

/// The round trip before the first sample, and the longest pause of the reject queue, in nanoseconds. Retransmission
/// time-outs may be much longer on a transport that loses nothing.
const INITIAL_RTT: u64 = 250_000;
const MAX_REJECT_PAUSE: u64 = 50_000_000;

/// An acknowledgement waits for a message to piggyback on for this many round trips, but not longer than this many configured delays.
const ACK_ROUND_TRIPS: u64 = 2;
const MAX_ACK_DELAYS: u64 = 2;

/// The configured times, in nanoseconds: every message needs one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ack_delay: u64,
    /// Messages, not nanoseconds.
    pub(crate) ack_every: u16,
    pub(crate) min_timeout: u64,
    pub(crate) max_timeout: u64,
}

impl Timing {
    pub(crate) fn new(config: &Config) -> Self {
        let nanoseconds = |duration: core::time::Duration| duration.as_nanos() as u64;
        Timing {
            ack_delay: nanoseconds(config.ack_delay),
            ack_every: config.ack_every,
            min_timeout: nanoseconds(config.min_timeout),
            max_timeout: nanoseconds(config.max_timeout),
        }
    }
}

/// What acknowledged the message of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A frame with a message of the peer.
    Message,
    /// A frame of its own, which has waited for a message in vain.
    Alone,
}

/// The smoothed round-trip time and its deviation, up to four seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u32,
    deviation: u32,
    /// The last sample by [`Answer::Message`], in units of 256 ns.
    answer: u16,
    /// Time-outs in a row without an acknowledgement in between.
    pub(crate) backoff: u8,
    /// Requests for credit since there was any.
    pub(crate) credit_requests: u8,
}

impl Rtt {
    /// Record a sample: the round trip of a message that was sent only once (Karn's rule).
    pub(crate) fn sample(&mut self, nanoseconds: u64, by: Answer) {
        if by == Answer::Message {
            self.answer = (nanoseconds >> 8).min(u16::MAX as u64) as u16;
        }
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

    /// How long an acknowledgement waits for a message to travel with: at least as configured. Where the peer's answers
    /// take longer, because many share the path or the server, so does its next message.
    #[inline]
    pub(crate) fn ack_wait(&self, timing: &Timing) -> u64 {
        (ACK_ROUND_TRIPS * ((self.answer as u64) << 8)).clamp(timing.ack_delay, MAX_ACK_DELAYS * timing.ack_delay)
    }

    /// The round-trip time. `None` before the first sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.is_measured().then(|| Duration::from_nanos(self.smoothed.into()))
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.smoothed > 0
    }

    /// The retransmission time-out (RTO). It includes the longest time that an acknowledgement waits for a message to
    /// piggyback on.
    pub(crate) fn rto(&self, timing: &Timing) -> u64 {
        let estimate = self.smoothed as u64 + 4 * self.deviation as u64 + MAX_ACK_DELAYS * timing.ack_delay;
        (estimate.max(timing.min_timeout) << self.backoff.min(20)).min(timing.max_timeout)
    }

    /// How long a rejected message waits before it is sent again: one round trip, doubled `backoff` times.
    pub(crate) fn reject_pause(&self, timing: &Timing, backoff: u8) -> u64 {
        let rtt = if self.is_measured() { self.smoothed as u64 } else { timing.min_timeout.min(INITIAL_RTT) };
        (rtt << backoff.min(20)).min(timing.max_timeout).min(MAX_REJECT_PAUSE)
    }

    /// How long after its last transmission a message may be sent again before its time-out: one and a half round
    /// trips.
    pub(crate) fn min_resend_age(&self) -> u64 {
        let rtt = if self.is_measured() { self.smoothed as u64 } else { INITIAL_RTT };
        rtt * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing { ack_delay: 0, ack_every: 32, min_timeout: 100_000, max_timeout: 50_000_000 };

    #[test]
    fn follows_the_samples_and_backs_off() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(1_000_000, Answer::Alone);
        }
        assert_eq!(rtt.min_resend_age(), 1_500_000);
        let settled = rtt.rto(&TIMING);
        assert!((1_000_000..1_100_000).contains(&settled), "{settled:?}");
        rtt.backoff = 3;
        assert_eq!(rtt.rto(&TIMING), settled * 8);
        rtt.backoff = 200;
        assert_eq!(rtt.rto(&TIMING), TIMING.max_timeout);
    }

    #[test]
    fn an_acknowledgement_waits_longer_where_answers_take_longer() {
        let timing = Timing { ack_delay: 50_000, ..TIMING };
        let mut rtt = Rtt::default();
        for (answer, wait) in [(5_000, 50_000), (38_400, 76_800), (10_000_000, 100_000)] {
            rtt.sample(answer, Answer::Message);
            assert_eq!(rtt.ack_wait(&timing), wait);
            rtt.sample(1_000_000, Answer::Alone);
            assert_eq!(rtt.ack_wait(&timing), wait);
        }
    }

    #[test]
    fn never_below_the_minimum() {
        let mut rtt = Rtt::default();
        rtt.sample(5_000, Answer::Message);
        assert_eq!(rtt.rto(&TIMING), TIMING.min_timeout);
    }
}
