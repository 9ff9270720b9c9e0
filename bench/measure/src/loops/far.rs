//! The far side: carries out the near side's control messages.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::plan::Bench;

use super::{CONFIRM_TIME, OpenDriver};
use crate::channel::{Arrived, BATCH, ControlMessage, Step};

impl OpenDriver<'_> {
    /// Serve one driver until the near side ends the stage.
    ///
    /// # Errors
    /// [`Error::GivenUp`] if the near side leaves early; the near side is lost; or the driver fails.
    pub(crate) fn serve(self) -> Result<(), Error> {
        let mut far = Far { own: self, done: 0, last: ControlMessage::Ended };
        let end = far.follow();
        match end {
            Ok(()) => far.confirm_end(),
            Err(Error::GivenUp) => far.confirm_end().and(end),
            lost => lost,
        }
    }
}

struct Far<'a> {
    own: OpenDriver<'a>,
    done: u32,
    /// The last control message, in case it was lost.
    last: ControlMessage,
}

impl Far<'_> {
    fn follow(&mut self) -> Result<(), Error> {
        let mut limit = self.own.timeouts.open;
        while let Some(step) = self.next(limit)? {
            self.own.prepare(step)?;
            self.send(ControlMessage::Ready { step: step.number })?;
            let Arrived { messages, wrong, .. } = match step.bench {
                Bench::Latency | Bench::Volley | Bench::LogP => self.echo(step)?,
                Bench::Bandwidth | Bench::Rate | Bench::Bulk => self.count(step)?,
            };
            self.done = step.number;
            self.last = ControlMessage::Stopped { step: step.number, messages, wrong };
            self.send(self.last)?;
            limit = self.own.timeouts.silence;
        }
        Ok(())
    }

    fn send(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.own.channel.send_control(control)
    }

    /// Receive. If the near side leaves, any step ends.
    #[inline]
    fn receive(&mut self) -> Result<Arrived, Error> {
        match self.own.channel.receive(BATCH)? {
            Arrived { control: Some(ControlMessage::GiveUp), .. } => Err(Error::GivenUp),
            arrived => Ok(arrived),
        }
    }

    /// Answer a control message during this step, of which so much has arrived. Returns `true` at the end of the step.
    fn answer(&mut self, step: Step, control: Option<ControlMessage>, messages: u64) -> Result<bool, Error> {
        match control {
            Some(ControlMessage::Stop { step: s }) if s == step.number => return Ok(true),
            Some(ControlMessage::Hello(again)) if again == step => {
                self.send(ControlMessage::Ready { step: step.number })?;
            }
            Some(ControlMessage::HowMany { step: s, sent }) if s == step.number => {
                self.send(ControlMessage::Got { step: s, messages, of: Some(sent) })?;
            }
            _ => {}
        }
        Ok(false)
    }

    /// The next step, or `None` at the end of the stage.
    fn next(&mut self, limit: Duration) -> Result<Option<Step>, Error> {
        let mut wait = self.own.wait("waiting for the next measurement", limit);
        loop {
            match self.receive()?.control {
                // A Hello of an earlier step is late.
                Some(ControlMessage::Hello(step)) if step.number > self.done => return Ok(Some(step)),
                Some(ControlMessage::End) => return Ok(None),
                Some(ControlMessage::Stop { .. }) => self.send(self.last)?,
                _ => {}
            }
            wait.idle()?;
        }
    }

    /// Send back everything until the step ends. Returns what arrived.
    fn echo(&mut self, step: Step) -> Result<Arrived, Error> {
        let mut wait = self.own.wait("answering", self.own.timeouts.silence);
        let mut all = Arrived::default();
        self.own.channel.echo(true);
        loop {
            let arrived = self.receive()?;
            all.add(arrived);
            if arrived.control.is_some() && self.answer(step, arrived.control, all.messages)? {
                break;
            }
            if arrived.messages > 0 {
                wait.active()?;
            } else {
                wait.idle()?;
            }
        }
        self.own.channel.echo(false);
        Ok(all)
    }

    /// Count everything until the step ends. Returns what arrived.
    fn count(&mut self, step: Step) -> Result<Arrived, Error> {
        let mut wait = self.own.wait("counting", self.own.timeouts.silence);
        let mut report = self.own.wait("telling what was counted", Duration::MAX);
        let mut count = ReceiveCount::new(step, self.own.channel.window());
        loop {
            let asked = count.begun.is_none().then(Instant::now);
            let arrived = self.receive()?;
            if arrived == Arrived::default() {
                if let Some(asked) = asked {
                    count.on_nothing(asked);
                }
                wait.idle()?;
            } else {
                wait.active()?;
            }
            if arrived.messages > 0
                && let Some(control) = count.on_data(arrived, Instant::now())
            {
                self.send(control)?;
            }
            if arrived.control.is_some() {
                if self.answer(step, arrived.control, count.all.messages)? {
                    return Ok(count.all);
                }
                if let Some(ControlMessage::HowMany { .. }) = arrived.control {
                    count.reported = count.all.messages;
                }
            }
            if let Some(counted) = count.counted
                && report.ask()?
            {
                self.send(counted)?;
            }
        }
    }

    /// Confirm the end, and stay a moment in case the confirmation is lost. A near side that received it may be gone at
    /// once.
    fn confirm_end(&mut self) -> Result<(), Error> {
        let mut wait = self.own.wait("leaving", CONFIRM_TIME);
        let mut stay = || {
            self.own.channel.send_control(ControlMessage::Ended)?;
            loop {
                if let Some(ControlMessage::End | ControlMessage::GiveUp) = self.own.channel.receive(BATCH)?.control {
                    self.own.channel.send_control(ControlMessage::Ended)?;
                }
                wait.idle()?;
            }
        };
        match stay() {
            Err(Error::Silent { .. } | Error::PeerGone(_) | Error::Lost(_)) => Ok(()),
            other => other,
        }
    }
}

/// The receiver's counts, in all and within the measured interval.
#[derive(Debug)]
struct ReceiveCount {
    step: Step,
    /// Report to the sender after this many messages.
    every: Option<u64>,
    all: Arrived,
    reported: u64,
    first: Option<Instant>,
    /// When the interval began, and the counts at that time.
    begun: Option<(Instant, Arrived)>,
    /// Present once the interval is over.
    counted: Option<ControlMessage>,
}

impl ReceiveCount {
    fn new(step: Step, window: Option<u64>) -> Self {
        let every = window.map(|window| (window / 4).max(1));
        ReceiveCount { step, every, all: Arrived::default(), reported: 0, first: None, begun: None, counted: None }
    }

    /// Nothing lay queued at `asked`. What is counted from then on came after it: data that waited while this side was
    /// off its core would pass for a faster wire.
    fn on_nothing(&mut self, asked: Instant) {
        if self.first.is_some_and(|first| asked - first >= self.step.warm_up) {
            self.begun = Some((asked, self.all));
        }
    }

    /// Count data. Returns the report that the sender needs for its window. Where this side is the slower one, data is
    /// always queued, and the interval begins after twice the warm-up.
    #[inline]
    fn on_data(&mut self, arrived: Arrived, now: Instant) -> Option<ControlMessage> {
        self.all.add(arrived);
        let first = *self.first.get_or_insert(now);
        match self.begun {
            None if now - first >= 2 * self.step.warm_up => self.begun = Some((now, self.all)),
            Some((begin, before)) if self.counted.is_none() && now - begin >= self.step.time => {
                self.counted = Some(ControlMessage::Counted {
                    step: self.step.number,
                    messages: self.all.messages - before.messages,
                    bytes: self.all.bytes - before.bytes,
                    time: now - begin,
                });
            }
            _ => {}
        }
        if self.all.messages - self.reported < self.every? {
            return None;
        }
        self.reported = self.all.messages;
        Some(ControlMessage::Got { step: self.step.number, messages: self.reported, of: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    const MS: Duration = Duration::from_millis(1);

    fn count(window: Option<u64>) -> ReceiveCount {
        ReceiveCount::new(
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
        // One message a millisecond: the first begins the warm-up, the one at 20 ms the interval.
        for at in 0..=130 {
            count.on_data(data(1), start + at * MS);
        }
        let expected = ControlMessage::Counted { step: 1, messages: 100, bytes: 6400, time: 100 * MS };
        assert_eq!(count.counted, Some(expected));
        assert_eq!(count.all.messages, 131);
    }

    #[test]
    fn what_was_queued_before_the_interval_does_not_count() {
        let (mut count, start) = (count(None), Instant::now());
        count.on_data(data(1), start);
        count.on_nothing(start + 9 * MS);
        // It was off its core for 6 ms, and finds what came in that time.
        count.on_data(data(6), start + 15 * MS);
        count.on_nothing(start + 15 * MS);
        for at in 16..=120 {
            count.on_data(data(1), start + at * MS);
        }
        let expected = ControlMessage::Counted { step: 1, messages: 100, bytes: 6400, time: 100 * MS };
        assert_eq!(count.counted, Some(expected));
    }
    #[test]
    fn the_sender_is_told_four_times_a_window() {
        let (mut count, now) = (count(Some(16)), Instant::now());
        let reported: Vec<u64> = (1..=16).filter(|_| count.on_data(data(1), now).is_some()).collect();
        assert_eq!(reported, [4, 8, 12, 16]);
    }
}
