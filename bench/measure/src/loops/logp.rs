//! The parameters of the LogP model, by the micro-benchmark of Culler, Liu, Martin and Yoshikawa ("Assessing fast network
//! interfaces", IEEE Micro 1996): bursts of requests, with and without a delay between them.
//!
//! ```text
//!   short burst   s s s s s s s s           the time of one is Os: no reply is received meanwhile
//!   delayed       s ····· r s ····· r       without the delay, the time of one is Os + Or
//!   one at a time s  L  r'  L  r            RTT = 2 (Os + L + Or)
//!   long burst    s s r s r s r s r ...     the time of one is g: the slowest stage limits it
//! ```

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::spread::median;

use super::OpenDriver;
use crate::channel::{BATCH, Step};

/// Requests of a short burst, and of one with delays. Fewer than any window.
const BURST: usize = 8;
/// The delay between two requests: two round trips, within these limits. The reply has arrived by then.
const MIN_DELAY: Duration = Duration::from_micros(10);
const MAX_DELAY: Duration = Duration::from_millis(1);
/// Replies of a segment of a long burst.
const SEGMENT: u64 = 128;
/// A reply that takes longer is lost.
const LATE_REPLY: Duration = Duration::from_millis(20);

/// Times in nanoseconds: medians over the bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogP {
    /// Os: the sender's processor is busy with one request.
    pub send: f64,
    /// Or: it is busy with one reply.
    pub receive: f64,
    /// g: the time between two requests of a long burst.
    pub gap: f64,
    /// The median round trip.
    pub round_trip: f64,
    /// Requests without a reply.
    pub lost: u64,
}

impl LogP {
    /// L: what remains of one way. It is negative if the receiver begins before the sender's call has returned.
    pub fn latency(&self) -> f64 {
        self.round_trip / 2.0 - self.send - self.receive
    }
}

impl OpenDriver<'_> {
    /// The near side of one measurement.
    pub(crate) fn logp(&mut self, step: Step) -> Result<LogP, Error> {
        self.start(step)?;
        let near = OpenDriver { channel: &mut *self.channel, ..*self };
        let mut bursts = Bursts { near, sent: 0, arrived: 0, lost: 0, wrong: 0 };
        bursts.stream(step.warm_up)?;
        let (end, mut samples) = (Instant::now() + step.time / 2, [const { Vec::new() }; 3]);
        while samples[0].is_empty() || Instant::now() < end {
            for (all, sample) in samples.iter_mut().zip(bursts.samples()?) {
                all.push(sample);
            }
        }
        let gap = bursts.stream(step.time / 2)?;
        let [send, both, round_trip] = samples.map(|all| median(&all).unwrap_or_default());
        let (wrong, lost) = (bursts.wrong, bursts.lost);
        self.stop(step, wrong)?;
        Ok(LogP { send, receive: both - send, gap, round_trip, lost })
    }
}

struct Bursts<'a> {
    near: OpenDriver<'a>,
    sent: u64,
    arrived: u64,
    lost: u64,
    /// Replies with wrong length or content.
    wrong: u64,
}

impl Bursts<'_> {
    /// One of each: Os, Os + Or, and the round trip.
    fn samples(&mut self) -> Result<[f64; 3], Error> {
        let round_trip = self.each(|bursts| bursts.send().and_then(|()| bursts.drain()).map(|()| Duration::ZERO))?;
        let delay = Duration::from_nanos(2 * round_trip as u64).clamp(MIN_DELAY, MAX_DELAY);
        let both = self.each(|bursts| {
            bursts.send()?;
            let begin = Instant::now();
            while begin.elapsed() < delay {
                std::hint::spin_loop();
            }
            let waited = begin.elapsed();
            bursts.drain().map(|()| waited)
        })?;
        let send = self.each(|bursts| bursts.send().map(|()| Duration::ZERO))?;
        self.drain()?;
        Ok([send, both, round_trip])
    }

    /// The mean time of one `part` of a burst, in nanoseconds, without the delay that it returns.
    fn each(&mut self, mut part: impl FnMut(&mut Self) -> Result<Duration, Error>) -> Result<f64, Error> {
        let (begin, mut delays) = (Instant::now(), Duration::ZERO);
        for _ in 0..BURST {
            delays += part(self)?;
        }
        Ok((begin.elapsed() - delays).as_nanos() as f64 / BURST as f64)
    }

    /// Send requests as fast as possible for this long. Returns the time between two replies, in nanoseconds: the median over
    /// segments.
    fn stream(&mut self, length: Duration) -> Result<f64, Error> {
        let (begin, mut gaps) = (Instant::now(), Vec::new());
        let (mut since, mut before) = (begin, self.arrived);
        let window = self.near.channel.window().unwrap_or(u64::MAX);
        let mut wait = self.near.wait("sending a burst", length + self.near.timeouts.silence);
        loop {
            let has_room = self.in_flight() < window && self.near.channel.send(1)? == 1;
            if has_room {
                self.sent += 1;
                self.near.channel.keep_sending();
            }
            let arrivals = self.receive(BATCH)?;
            let look = if arrivals + u64::from(has_room) > 0 { wait.turn()? } else { wait.idle()? };
            if self.arrived - before >= SEGMENT {
                let now = Instant::now();
                gaps.push((now - since).as_nanos() as f64 / (self.arrived - before) as f64);
                (since, before) = (now, self.arrived);
                if now - begin >= length {
                    self.drain()?;
                    return Ok(median(&gaps).unwrap_or_default());
                }
            } else if look.is_some_and(|now| now - since > LATE_REPLY) {
                self.give_up();
            }
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        let mut wait = self.near.wait("sending a request", self.near.timeouts.silence);
        while self.near.channel.send(1)? == 0 {
            self.receive(1)?;
            wait.idle()?;
        }
        self.sent += 1;
        Ok(())
    }

    /// Wait for the replies of all requests.
    fn drain(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        let mut wait = self.near.wait("waiting for replies", self.near.timeouts.silence);
        while self.in_flight() > 0 {
            if self.receive(1)? > 0 {
                wait.active()?;
            } else if wait.idle()?.is_some_and(|now| now - begin > LATE_REPLY) && self.near.channel.window().is_some() {
                self.give_up();
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.arrived + self.lost)
    }

    /// The missing replies of a channel that may lose messages are lost.
    fn give_up(&mut self) {
        if self.near.channel.window().is_some() {
            self.lost = self.sent.saturating_sub(self.arrived);
        }
    }

    /// Returns the replies. Those that were counted as lost are late.
    #[inline]
    fn receive(&mut self, budget: usize) -> Result<u64, Error> {
        let arrived = self.near.channel.receive(budget)?;
        self.wrong += arrived.wrong;
        self.arrived += arrived.messages;
        self.lost = self.lost.min(self.sent.saturating_sub(self.arrived));
        Ok(arrived.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake, Faults};
    use super::*;
    use crate::loss::Loss;
    use crate::plan::Bench;
    use crate::watch::Watch;

    fn measure(channel: &mut Fake) -> Result<LogP, Error> {
        let time = Duration::from_millis(60);
        let step = Step { number: 1, bench: Bench::LogP, size: 16, loss: Loss::NONE, warm_up: time / 10, time };
        fake::open(channel, fake::TIMEOUTS, &Watch::default()).logp(step)
    }

    /// The time on the wire is not the sender's. A window of messages is in flight at once, so the gap is shorter.
    #[test]
    fn the_wire_is_latency() {
        let delay = Duration::from_micros(500);
        let measured = fake::across(Faults { delay, ..Faults::default() }, measure).unwrap();
        let delay = delay.as_nanos() as f64;
        assert!(measured.round_trip >= 2.0 * delay, "{measured:?}");
        assert!(measured.send < delay && measured.gap > 0.0 && measured.gap < measured.round_trip, "{measured:?}");
    }

    #[test]
    fn lost_requests_are_counted_and_stop_nothing() {
        let faults = Faults { lose_data: 100, lose_controls: 3, ..Faults::default() };
        let (measured, lost) = fake::across(faults, |channel| Ok((measure(channel)?, channel.lost))).unwrap();
        assert!(lost > 0 && measured.lost > 0, "{measured:?}");
    }
}
