//! Round trips, one at a time, each timed.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::Error;
use crate::via::Via;
use crate::watch::Watch;

use super::{Note, Pace, Patience, Port, Step, start, stop};

/// Nanoseconds from one reply to the next, with all that an exchange takes; exact to one part in a thousand, up to 10
/// s.
pub(crate) type RoundTrips = Histogram<u64>;

/// After this time without a reply, ask whether the request has arrived.
const LATE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) round_trips: RoundTrips,
    /// Requests without a reply.
    pub(crate) lost: u64,
}

/// An empty histogram of round trips.
pub(crate) fn round_trips() -> RoundTrips {
    RoundTrips::new_with_bounds(1, 10_000_000_000, 3).expect("bounds that hdrhistogram allows")
}

/// The near side of one measurement.
pub(crate) fn latency(
    port: &mut dyn Port,
    via: Via,
    step: Step,
    patience: Patience,
    watch: &Watch,
) -> Result<Latency, Error> {
    start(port, via, step, patience, watch)?;
    let mut latency = Latency { round_trips: round_trips(), lost: 0 };
    let mut table = Table { port, via, step: step.number, patience, watch, served: 0, wrong: 0 };
    table.play(step.warm_up, |_| {})?;
    latency.lost = table.play(step.time, |time| latency.round_trips.saturating_record(time.as_nanos() as u64))?;
    let wrong = table.wrong;
    stop(port, via, (step, wrong), patience, watch)?;
    Ok(latency)
}

/// One measurement's exchanges.
struct Table<'a> {
    port: &'a mut dyn Port,
    via: Via,
    step: u32,
    patience: Patience,
    watch: &'a Watch,
    /// Requests so far.
    served: u64,
    /// Replies with wrong length or content.
    wrong: u64,
}

impl Table<'_> {
    /// Exchange messages for this long. Returns how many were lost.
    fn play(&mut self, length: Duration, mut each: impl FnMut(Duration)) -> Result<u64, Error> {
        let mut lost = 0;
        let begin = Instant::now();
        let mut sent = begin;
        loop {
            self.serve()?;
            let back = self.back(sent)?;
            let now = Instant::now();
            match back {
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
    fn serve(&mut self) -> Result<(), Error> {
        self.served += 1;
        if self.port.send(1)? == 1 {
            return Ok(());
        }
        let mut pace = Pace::new(self.watch, self.via, "sending a request", self.patience.silence);
        loop {
            self.port.receive(1)?;
            if self.port.send(1)? == 1 {
                return Ok(());
            }
            pace.idle()?;
        }
    }

    /// Wait for the reply; `false` if it is lost. With a window, control messages and data keep their order, so the
    /// reply is lost once the answer to a later question arrives first. To take a late reply for the next one would
    /// make all later times too short.
    #[inline]
    fn back(&mut self, sent: Instant) -> Result<bool, Error> {
        let mut pace = Pace::from(self.watch, self.via, "waiting for a reply", self.patience.silence, sent);
        let mut next_question = sent + LATE;
        loop {
            let arrived = self.port.receive(1)?;
            if arrived.messages > 0 {
                self.wrong += arrived.wrong;
                return Ok(true);
            }
            if matches!(arrived.note, Some(Note::Got { of, .. }) if of == Some(self.served)) {
                return Ok(false);
            }
            if let Some(now) = pace.idle()?
                && self.port.window().is_some()
                && now > next_question
            {
                self.port.tell(Note::HowMany { step: self.step, sent: self.served })?;
                next_question = now + LATE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake, Faults};
    use super::*;
    use crate::loss::Loss;
    use crate::plan::Bench;

    fn measure(port: &mut Fake) -> Result<Latency, Error> {
        measure_with(port, 1, fake::PATIENCE)
    }

    fn measure_with(port: &mut Fake, number: u32, patience: Patience) -> Result<Latency, Error> {
        let time = Duration::from_millis(30);
        let step =
            Step { number, bench: Bench::Latency, size: 16, loss: Loss::NONE, warm_up: Duration::from_millis(5), time };
        latency(port, Via::Raw, step, patience, &Watch::default())
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
        let faults = Faults { lose_data: 2, lose_notes: 2, ..Faults::default() };
        let measured = fake::across(faults, measure).unwrap();
        assert!(measured.lost > 0);
    }

    /// Requests are cut here, and replies at the far side.
    #[test]
    fn cut_messages_fail_it_with_their_count() {
        let faults = Faults { cut_data: 2, ..Faults::default() };
        let mut cut = 0;
        let error = fake::both(faults, |port| measure(port).inspect_err(|_| cut = port.cut)).0.unwrap_err();
        assert!(matches!(error, Error::Wrong { wrong, .. } if wrong == 2 * cut && cut > 0), "{error}: {cut}");
    }

    /// A reply that arrives after the question is neither lost nor taken for the next one.
    #[test]
    fn late_replies_are_late() {
        let faults = Faults { delay: LATE, ..Faults::default() };
        let measured = fake::across(faults, measure).unwrap();
        assert!(
            measured.round_trips.min() >= 2 * LATE.as_nanos() as u64 * 999 / 1000,
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
        let times = fake::across(Faults::default(), |port| {
            let (via, patience, watch) = (Via::Raw, fake::PATIENCE, Watch::default());
            start(port, via, step, patience, &watch)?;
            let mut times = Vec::new();
            let mut table = Table { port, via, step: 1, patience, watch: &watch, served: 0, wrong: 0 };
            table.play(time, |time| {
                times.push(time);
                std::thread::sleep(BETWEEN);
            })?;
            stop(port, via, (step, 0), patience, &watch)?;
            Ok(times)
        });
        let times = times.unwrap();
        assert!(times.len() > 1 && times[1..].iter().all(|time| *time >= BETWEEN), "{times:?}");
    }

    #[test]
    fn several_sizes_one_after_the_other() {
        let all = fake::across(Faults::default(), |port| Ok([measure(port)?, measure_with(port, 2, fake::PATIENCE)?]));
        assert!(all.unwrap().iter().all(|one| !one.round_trips.is_empty()));
    }

    #[test]
    fn silence_is_an_error() {
        assert!(matches!(measure_with(&mut fake::alone(), 1, fake::IMPATIENCE), Err(Error::Silent { .. })));
    }
}
