//! The far side: carries out the near side's control messages.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::plan::Bench;
use crate::via::Via;
use crate::watch::Watch;

use super::steps::{STAY, prepare};
use super::{Arrived, BATCH, Note, Pace, Patience, Port, Step};

/// Serve one driver until the near side ends the stage.
///
/// # Errors
/// [`Error::GivenUp`] if the near side leaves early; the near side is lost; or the driver fails.
pub(crate) fn serve(port: &mut dyn Port, via: Via, patience: Patience, watch: &Watch) -> Result<(), Error> {
    let mut far = Far { port, via, patience, watch, done: 0, last: Note::Ended };
    let end = far.follow();
    match end {
        Ok(()) => far.farewell(),
        Err(Error::GivenUp) => far.farewell().and(end),
        lost => lost,
    }
}

struct Far<'a> {
    port: &'a mut dyn Port,
    via: Via,
    patience: Patience,
    watch: &'a Watch,
    /// The last step that is over.
    done: u32,
    /// The last control message, in case it was lost.
    last: Note,
}

impl<'a> Far<'a> {
    /// Carry out one step after the other.
    fn follow(&mut self) -> Result<(), Error> {
        let mut limit = self.patience.open;
        while let Some(step) = self.next(limit)? {
            prepare(self.port, step)?;
            self.port.lose(step.loss);
            self.port.tell(Note::Ready { step: step.number })?;
            let Arrived { messages, wrong, .. } = match step.bench {
                Bench::Latency | Bench::Volley => self.echo(step)?,
                Bench::Bandwidth | Bench::Rate | Bench::Bulk => self.count(step)?,
            };
            self.done = step.number;
            self.last = Note::Stopped { step: step.number, messages, wrong };
            self.port.tell(self.last)?;
            limit = self.patience.silence;
        }
        Ok(())
    }

    /// Receive. If the near side leaves, any step ends.
    #[inline]
    fn hear(&mut self) -> Result<Arrived, Error> {
        match self.port.receive(BATCH)? {
            Arrived { note: Some(Note::GiveUp), .. } => Err(Error::GivenUp),
            arrived => Ok(arrived),
        }
    }

    fn pace(&self, doing: &'static str, limit: Duration) -> Pace<'a> {
        Pace::new(self.watch, self.via, doing, limit)
    }

    /// The next step, or `None` at the end of the stage.
    fn next(&mut self, limit: Duration) -> Result<Option<Step>, Error> {
        let mut pace = self.pace("waiting for the next measurement", limit);
        loop {
            match self.hear()?.note {
                // A Hello of an earlier step is late.
                Some(Note::Hello(step)) if step.number > self.done => return Ok(Some(step)),
                Some(Note::End) => return Ok(None),
                Some(Note::Stop { .. }) => self.port.tell(self.last)?,
                _ => {}
            }
            pace.idle()?;
        }
    }

    /// Send back everything until the step ends. Returns what arrived.
    fn echo(&mut self, step: Step) -> Result<Arrived, Error> {
        let mut pace = self.pace("answering", self.patience.silence);
        let mut all = Arrived::default();
        self.port.echo(true);
        loop {
            let arrived = self.hear()?;
            all.add(arrived);
            match arrived.note {
                Some(Note::Stop { step: s }) if s == step.number => break,
                Some(Note::Hello(again)) if again == step => self.port.tell(Note::Ready { step: step.number })?,
                Some(Note::HowMany { step: s, sent }) if s == step.number => {
                    self.port.tell(Note::Got { step: s, messages: all.messages, of: Some(sent) })?;
                }
                _ => {}
            }
            if arrived.messages > 0 {
                pace.hearing()?;
            } else {
                pace.idle()?;
            }
        }
        self.port.echo(false);
        Ok(all)
    }

    /// Count everything until the step ends. Returns what arrived.
    fn count(&mut self, step: Step) -> Result<Arrived, Error> {
        let mut pace = self.pace("counting", self.patience.silence);
        let mut tell = self.pace("telling what was counted", Duration::MAX);
        let mut count = Count::new(step, self.port.window());
        loop {
            let arrived = self.hear()?;
            if arrived == Arrived::default() {
                pace.idle()?;
            } else {
                pace.hearing()?;
            }
            if arrived.messages > 0
                && let Some(note) = count.on_data(arrived, Instant::now())
            {
                self.port.tell(note)?;
            }
            match arrived.note {
                Some(Note::Stop { step: s }) if s == step.number => return Ok(count.all),
                Some(Note::Hello(again)) if again == step => self.port.tell(Note::Ready { step: step.number })?,
                Some(Note::HowMany { step: s, sent }) if s == step.number => self.port.tell(count.got(Some(sent)))?,
                _ => {}
            }
            if let Some(counted) = count.counted
                && tell.ask()?
            {
                self.port.tell(counted)?;
            }
        }
    }

    /// Confirm the end, and stay a moment in case the confirmation is lost. A near side that received it may be gone at
    /// once.
    fn farewell(&mut self) -> Result<(), Error> {
        match self.stay() {
            Err(Error::Silent { .. } | Error::PeerGone(_) | Error::Lost(_)) => Ok(()),
            other => other,
        }
    }

    fn stay(&mut self) -> Result<(), Error> {
        self.port.tell(Note::Ended)?;
        let mut pace = self.pace("leaving", STAY);
        loop {
            if let Some(Note::End | Note::GiveUp) = self.port.receive(BATCH)?.note {
                self.port.tell(Note::Ended)?;
            }
            pace.idle()?;
        }
    }
}

/// The receiver's counts, in all and within the measured interval.
#[derive(Debug)]
struct Count {
    step: Step,
    /// Report to the sender after this many messages.
    every: Option<u64>,
    all: Arrived,
    told: u64,
    first: Option<Instant>,
    /// When the interval began, and the counts at that time.
    begun: Option<(Instant, Arrived)>,
    /// Present once the interval is over.
    counted: Option<Note>,
}

impl Count {
    fn new(step: Step, window: Option<u64>) -> Self {
        let every = window.map(|window| (window / 4).max(1));
        Count { step, every, all: Arrived::default(), told: 0, first: None, begun: None, counted: None }
    }

    /// Count data. Returns the report that the sender needs for its window.
    #[inline]
    fn on_data(&mut self, arrived: Arrived, now: Instant) -> Option<Note> {
        self.all.add(arrived);
        let first = *self.first.get_or_insert(now);
        match self.begun {
            None if now - first >= self.step.warm_up => self.begun = Some((now, self.all)),
            Some(begun) if self.counted.is_none() && now - begun.0 >= self.step.time => {
                self.counted = Some(self.interval(begun, now));
            }
            _ => {}
        }
        (self.all.messages - self.told >= self.every?).then(|| self.got(None))
    }

    fn interval(&self, (begin, before): (Instant, Arrived), now: Instant) -> Note {
        Note::Counted {
            step: self.step.number,
            messages: self.all.messages - before.messages,
            bytes: self.all.bytes - before.bytes,
            time: now - begin,
        }
    }

    fn got(&mut self, of: Option<u64>) -> Note {
        self.told = self.all.messages;
        Note::Got { step: self.step.number, messages: self.told, of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    const MS: Duration = Duration::from_millis(1);

    fn count(window: Option<u64>) -> Count {
        Count::new(
            Step { number: 1, bench: Bench::Rate, size: 64, loss: Loss::NONE, warm_up: 10 * MS, time: 100 * MS },
            window,
        )
    }

    fn data(messages: u64) -> Arrived {
        Arrived { messages, bytes: 64 * messages, ..Arrived::default() }
    }

    #[test]
    fn only_what_comes_within_the_interval_counts() {
        let (mut count, start) = (count(None), Instant::now());
        // One message a millisecond: the first begins the warm-up, the one at 10 ms the interval.
        for at in 0..=120 {
            count.on_data(data(1), start + at * MS);
        }
        let expected = Note::Counted { step: 1, messages: 100, bytes: 6400, time: 100 * MS };
        assert_eq!(count.counted, Some(expected));
        assert_eq!(count.all.messages, 121);
    }

    #[test]
    fn a_pause_makes_the_interval_longer_and_not_the_count_wrong() {
        let (mut count, start) = (count(None), Instant::now());
        for at in [0, 10, 20, 150] {
            count.on_data(data(2), start + at * MS);
        }
        assert_eq!(count.counted, Some(Note::Counted { step: 1, messages: 4, bytes: 256, time: 140 * MS }));
    }

    #[test]
    fn the_sender_is_told_four_times_a_window() {
        let (mut count, now) = (count(Some(16)), Instant::now());
        let told: Vec<u64> = (1..=16).filter(|_| count.on_data(data(1), now).is_some()).collect();
        assert_eq!(told, [4, 8, 12, 16]);
        assert_eq!(count.got(Some(20)), Note::Got { step: 1, messages: 16, of: Some(20) });
    }
}
