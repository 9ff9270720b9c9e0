//! Round trips, one at a time, each timed.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::Error;

use super::OpenDriver;
use crate::channel::{ControlMessage, SpinWait, Step};

/// Nanoseconds from one reply to the next, with all that an exchange takes; exact to one part in a thousand, up to 10
/// s.
pub type RoundTrips = Histogram<u64>;

/// After this time without a reply, ask whether the request has arrived.
const LATE_REPLY: Duration = Duration::from_millis(20);

/// What a measurement of round trips has found.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The times, in nanoseconds.
    pub round_trips: RoundTrips,
    /// Messages that never arrived.
    pub lost: u64,
}

/// An empty histogram.
pub fn round_trips() -> RoundTrips {
    RoundTrips::new_with_bounds(1, 10_000_000_000, 3).expect("bounds that hdrhistogram allows")
}

/// All of these times.
pub fn together<'a>(all: impl IntoIterator<Item = &'a RoundTrips>) -> RoundTrips {
    let mut sum = round_trips();
    // Cannot fail: all have the same bounds.
    all.into_iter().for_each(|one| _ = sum.add(one));
    sum
}

impl OpenDriver<'_> {
    /// The near side of one measurement.
    pub(crate) fn latency(&mut self, step: Step) -> Result<Latency, Error> {
        self.start(step)?;
        let mut latency = Latency { round_trips: round_trips(), lost: 0 };
        let near = OpenDriver { channel: &mut *self.channel, ..*self };
        let mut ping_pong = PingPong { near, step: step.number, requests: 0, wrong: 0 };
        ping_pong.run(step.warm_up, |_| {})?;
        let record = |time: Duration| latency.round_trips.saturating_record(time.as_nanos() as u64);
        latency.lost = ping_pong.run(step.time, record)?;
        let wrong = ping_pong.wrong;
        self.stop(step, wrong)?;
        Ok(latency)
    }
}

struct PingPong<'a> {
    near: OpenDriver<'a>,
    step: u32,
    requests: u64,
    /// Replies with wrong length or content.
    wrong: u64,
}

impl PingPong<'_> {
    /// Exchange messages for this long. Returns how many were lost.
    fn run(&mut self, length: Duration, mut each: impl FnMut(Duration)) -> Result<u64, Error> {
        let mut lost = 0;
        let begin = Instant::now();
        let mut sent = begin;
        loop {
            self.send_request()?;
            let is_reply = self.await_reply(sent)?;
            let now = Instant::now();
            match is_reply {
                true => each(now - sent),
                false => lost += 1,
            }
            if now - begin >= length {
                return Ok(lost);
            }
            // The clock is read once an exchange, as in ucx_perftest: the end of one is the start of the next.
            sent = now;
        }
    }

    #[inline]
    fn send_request(&mut self) -> Result<(), Error> {
        self.requests += 1;
        if self.near.channel.send(1)? == 1 {
            return Ok(());
        }
        let mut wait = self.near.wait("sending a request", self.near.timeouts.silence);
        loop {
            self.near.channel.receive(1)?;
            if self.near.channel.send(1)? == 1 {
                return Ok(());
            }
            wait.idle()?;
        }
    }

    /// Wait for the reply; `false` if it is lost. With a window, control messages and data keep their order, so the
    /// reply is lost once the answer to a later question arrives first. To take a late reply for the next one would
    /// make all later times too short.
    #[inline]
    fn await_reply(&mut self, sent: Instant) -> Result<bool, Error> {
        let OpenDriver { driver, timeouts, watch, .. } = self.near;
        let mut wait = SpinWait::from(watch, driver, "waiting for a reply", timeouts.silence, sent);
        let mut next_question = sent + LATE_REPLY;
        loop {
            let arrived = self.near.channel.receive(1)?;
            if arrived.messages > 0 {
                self.wrong += arrived.wrong;
                return Ok(true);
            }
            if matches!(arrived.control, Some(ControlMessage::Got { of, .. }) if of == Some(self.requests)) {
                return Ok(false);
            }
            if let Some(now) = wait.idle()?
                && self.near.channel.window().is_some()
                && now > next_question
            {
                self.near.channel.send_control(ControlMessage::HowMany { step: self.step, sent: self.requests })?;
                next_question = now + LATE_REPLY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake, Faults};
    use super::*;
    use crate::channel::Timeouts;
    use crate::loss::Loss;
    use crate::plan::Bench;
    use crate::watch::Watch;

    fn measure(channel: &mut Fake) -> Result<Latency, Error> {
        measure_with(channel, 1, fake::TIMEOUTS)
    }

    fn measure_with(channel: &mut Fake, number: u32, timeouts: Timeouts) -> Result<Latency, Error> {
        let time = Duration::from_millis(30);
        let step =
            Step { number, bench: Bench::Latency, size: 16, loss: Loss::NONE, warm_up: Duration::from_millis(5), time };
        fake::open(channel, timeouts, &Watch::default()).latency(step)
    }

    #[test]
    fn round_trips_take_their_time() {
        let faults = Faults { delay: Duration::from_micros(50), ..Faults::default() };
        let measured = fake::across(faults, measure).unwrap();
        assert!(measured.round_trips.min() >= 99_900, "{}", measured.round_trips.min());
        assert!((1..=301).contains(&measured.round_trips.len()), "{}", measured.round_trips.len());
        assert_eq!(measured.lost, 0);
    }

    #[test]
    fn lost_messages_are_counted_and_not_timed() {
        let faults = Faults { lose_data: 2, lose_controls: 2, ..Faults::default() };
        let measured = fake::across(faults, measure).unwrap();
        assert!(measured.lost > 0);
    }

    /// Requests are cut here, and replies at the far side.
    #[test]
    fn cut_messages_fail_it_with_their_count() {
        let faults = Faults { cut_data: 2, ..Faults::default() };
        let mut cut = 0;
        let error = fake::both(faults, |channel| measure(channel).inspect_err(|_| cut = channel.cut)).0.unwrap_err();
        assert!(matches!(error, Error::Wrong { wrong, .. } if wrong == 2 * cut && cut > 0), "{error}: {cut}");
    }

    /// A reply that arrives after the question is neither lost nor taken for the next one.
    #[test]
    fn late_replies_are_late() {
        let faults = Faults { delay: LATE_REPLY, ..Faults::default() };
        let measured = fake::across(faults, measure).unwrap();
        assert!(
            measured.round_trips.min() >= 2 * LATE_REPLY.as_nanos() as u64 * 999 / 1000,
            "{}",
            measured.round_trips.min()
        );
        assert_eq!(measured.lost, 0);
    }

    /// The clock is read once an exchange.
    #[test]
    fn what_lies_between_two_exchanges_is_timed_with_the_second() {
        const BETWEEN: Duration = Duration::from_millis(2);
        let time = Duration::from_millis(20);
        let step = Step { number: 1, bench: Bench::Latency, size: 16, loss: Loss::NONE, warm_up: time, time };
        let times = fake::across(Faults::default(), |channel| {
            let (watch, mut times) = (Watch::default(), Vec::new());
            let mut near = fake::open(channel, fake::TIMEOUTS, &watch);
            near.start(step)?;
            let mut ping_pong = PingPong { near, step: 1, requests: 0, wrong: 0 };
            ping_pong.run(time, |time| {
                times.push(time);
                std::thread::sleep(BETWEEN);
            })?;
            ping_pong.near.stop(step, 0)?;
            Ok(times)
        });
        let times = times.unwrap();
        assert!(times.len() > 1 && times[1..].iter().all(|time| *time >= BETWEEN), "{times:?}");
    }
    #[test]
    fn silence_is_an_error() {
        assert!(matches!(measure_with(&mut fake::alone(), 1, fake::SHORT_TIMEOUTS), Err(Error::Silent { .. })));
    }
}
