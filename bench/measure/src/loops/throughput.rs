//! One-way throughput, counted by the receiver.

use std::time::{Duration, Instant};

use crate::error::Error;

use super::OpenDriver;
use crate::channel::{BATCH, Channel, ControlMessage, SpinWait, Step};

/// A sender without room for this long asks how many messages have arrived.
const STALL_TIME: Duration = Duration::from_millis(5);

/// What a measurement in one direction has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Messages that arrived within [`time`](Throughput::time), by the receiver's count.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The interval, by the receiver's clock.
    pub(crate) time: Duration,
    /// Messages sent that never arrived, with those of the warm-up and the end.
    pub(crate) lost: u64,
    /// Frames of a message, with those sent again.
    pub(crate) frames_each: f64,
}

impl OpenDriver<'_> {
    /// The near side of one measurement. `singly` hands over one message with each call, whatever the batch: as a program
    /// does that sends a message when it has one.
    pub(crate) fn throughput(&mut self, step: Step, singly: bool) -> Result<Throughput, Error> {
        self.start(step)?;
        let window = self.channel.window();
        // With a window the receiver reports all the time, otherwise only at the end.
        let unreported = if window.is_some() { Duration::ZERO } else { step.warm_up + step.time };
        let wait = self.wait("sending", unreported + self.timeouts.silence);
        let mut sender = Sender { window, singly, ..Sender::default() };
        let before = self.channel.frames_sent();
        let mut counted = sender.run(self.channel, step.number, wait)?;
        self.settle(step.number, sender.sent)?;
        let received = self.stop(step, 0)?;
        if let (Some(before), Some(after)) = (before, self.channel.frames_sent()) {
            counted.frames_each = (after - before) as f64 / sender.sent.max(1) as f64;
        }
        counted.lost = sender.sent.saturating_sub(received);
        Ok(counted)
    }
}

#[derive(Debug, Default)]
struct Sender {
    window: Option<u64>,
    singly: bool,
    sent: u64,
    arrived: u64,
    lost: u64,
    /// Since when the sender has had no room.
    stalled: Option<Instant>,
}

impl Sender {
    /// Send until the receiver has counted for long enough.
    fn run(&mut self, channel: &mut dyn Channel, step: u32, mut wait: SpinWait<'_>) -> Result<Throughput, Error> {
        loop {
            let sent = self.send(channel)?;
            self.sent += sent as u64;
            let control = channel.receive(BATCH)?.control;
            if control.is_some() {
                wait.active()?;
            }
            match control {
                Some(ControlMessage::Counted { step: s, messages, bytes, time }) if s == step => {
                    return Ok(Throughput { messages, bytes, time, lost: 0, frames_each: 1.0 });
                }
                Some(ControlMessage::Got { step: s, messages, of }) if s == step => self.on_got(messages, of),
                _ => {}
            }
            if sent > 0 {
                self.stalled = None;
                wait.turn()?;
            } else if let Some(now) = wait.idle()?
                && self.is_stalled(now)
            {
                channel.send_control(ControlMessage::HowMany { step, sent: self.sent })?;
            }
        }
    }

    #[inline]
    fn send(&self, channel: &mut dyn Channel) -> Result<usize, Error> {
        let (count, mut sent) = (self.room(), 0);
        if !self.singly {
            return channel.send(count);
        }
        while sent < count && channel.send(1)? == 1 {
            sent += 1;
        }
        // The next messages are ready, though the channel has seen no batch.
        if count > 1 && sent == count {
            channel.keep_sending();
        }
        Ok(sent)
    }

    #[inline]
    fn room(&self) -> usize {
        let Some(window) = self.window else { return BATCH };
        let on_the_way = self.sent - (self.arrived + self.lost).min(self.sent);
        window.saturating_sub(on_the_way).min(BATCH as u64) as usize
    }

    /// With a window, control messages and data keep their order: a message that was sent before the question and is
    /// not in the answer is lost.
    fn on_got(&mut self, messages: u64, of: Option<u64>) {
        self.arrived = self.arrived.max(messages);
        if let Some(sent) = of {
            self.lost = self.lost.max(sent.saturating_sub(messages));
        }
    }

    fn is_stalled(&mut self, now: Instant) -> bool {
        let since = *self.stalled.get_or_insert(now);
        let stalled = self.window.is_some() && now - since > STALL_TIME;
        if stalled {
            self.stalled = Some(now);
        }
        stalled
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

    const TIME: Duration = Duration::from_millis(60);
    const WARM_UP: Duration = Duration::from_millis(5);
    const STEP: Step = Step { number: 1, bench: Bench::Rate, size: 64, loss: Loss::NONE, warm_up: WARM_UP, time: TIME };

    fn measure(channel: &mut Fake) -> Result<Throughput, Error> {
        fake::open(channel, fake::TIMEOUTS, &Watch::default()).throughput(STEP, false)
    }
    #[test]
    fn a_lossy_wire_does_not_stop_the_sender() {
        let faults = Faults { lose_data: 7, lose_controls: 3, ..Faults::default() };
        let (measured, lost) = fake::across(faults, |channel| Ok((measure(channel)?, channel.lost))).unwrap();
        // More than one window arrived, so the sender overcame stalls.
        assert!(lost > 0 && measured.messages > 2 * fake::WINDOW / 3, "{measured:?}");
        assert_eq!(measured.lost, lost);
    }

    #[test]
    fn cut_messages_fail_it_with_their_count() {
        let faults = Faults { cut_data: 9, ..Faults::default() };
        let mut cut = 0;
        let error = fake::both(faults, |channel| measure(channel).inspect_err(|_| cut = channel.cut)).0.unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(matches!(error, Error::Wrong { wrong, size: 64, .. } if wrong == cut && cut > 0), "{error}: {cut}");
        assert!(error.to_string().starts_with(&format!("{cut} messages of raw arrived with wrong content or length")));
    }

    /// As with our own messages when the kernel drops a frame.
    #[test]
    fn what_a_note_overtakes_is_late_and_not_lost() {
        let faults = Faults { late_data: 20, lose_controls: 3, ..Faults::default() };
        let (measured, late) = fake::across(faults, |channel| Ok((measure(channel)?, channel.late))).unwrap();
        assert!(late > 0 && measured.messages > 0, "{measured:?}");
        assert_eq!(measured.lost, 0);
    }

    /// A defect of the protocol has to be visible.
    #[test]
    fn what_does_not_come_for_all_patience_is_lost() {
        let faults = Faults { late_data: 20, lose_data: 50, ..Faults::default() };
        let timeouts = Timeouts { silence: Duration::from_millis(500), ..fake::TIMEOUTS };
        let measure = |channel: &mut Fake| fake::open(channel, timeouts, &Watch::default()).throughput(STEP, true);
        let (measured, lost) = fake::across(faults, |channel| Ok((measure(channel)?, channel.lost))).unwrap();
        assert!(lost > 0, "{measured:?}");
        assert_eq!(measured.lost, lost);
    }

    #[test]
    fn never_more_than_the_window_is_on_its_way() {
        let faults = Faults { delay: Duration::from_micros(200), ..Faults::default() };
        let most = fake::across(faults, |channel| measure(channel).map(|_| channel.most_on_the_way)).unwrap();
        assert!((1..=fake::WINDOW).contains(&most), "{most}");
    }
}
