//! One measurement, with the same loops for every driver.
//!
//! ```text
//!   near                                        far
//!    │ Hello {bench, size, times} ─────────────▶│  repeated until answered
//!    │◀────────────────────────────────── Ready │
//!    │ data ───────────────────────────────────▶│
//!    │◀──────────── data (latency) · Got (flow, losses) │  a driver with no flow control gets a window
//!    │◀────────────── Counted {messages, bytes} │  not for latency: the receiver's own interval
//!    │ HowMany {sent} ─────────────────────────▶│  until all has come, or no more does:
//!    │◀───────────────────────── Got {messages} │  only then is something lost
//!    │ Stop ───────────────────────────────────▶│
//!    │◀──────────────── Stopped {in all, wrong} │
//!    ╎ … next size …                            ╎
//!    │ End ────────────────────────────────────▶│  next driver; GiveUp: no more at all
//!    │◀────────────────────────────────── Ended │
//! ```
//!
//! Read first: [`Channel`], then [`OpenDriver`] in `latency`, `throughput`, `logp` and `far`.

#[cfg(test)]
pub(crate) mod fake;
mod far;
pub(crate) mod latency;
pub(crate) mod logp;
pub(crate) mod throughput;

use std::time::{Duration, Instant};

use crate::channel::{BATCH, Channel, ControlMessage, SpinWait, Step, Timeouts};
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::watch::Watch;

/// After this time, a lossy network has delivered what it will deliver.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// Enough for many repetitions, and short for a user.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

/// How long the far side stays to repeat its confirmation: a few of the near side's questions.
pub(crate) const CONFIRM_TIME: Duration = Duration::from_millis(10);

/// One side of a driver, and how it waits for the other.
pub(crate) struct OpenDriver<'a> {
    pub(crate) channel: &'a mut dyn Channel,
    pub(crate) driver: Driver,
    pub(crate) timeouts: Timeouts,
    pub(crate) watch: &'a Watch,
}

impl<'a> OpenDriver<'a> {
    fn wait(&self, doing: &'static str, limit: Duration) -> SpinWait<'a> {
        SpinWait::new(self.watch, self.driver, doing, limit)
    }

    /// Announce a measurement, and wait until the far side is ready.
    fn start(&mut self, step: Step) -> Result<(), Error> {
        self.prepare(step)?;
        let mut wait = self.wait("beginning a measurement", self.timeouts.open);
        let ready = ControlMessage::Ready { step: step.number };
        self.ask(&mut wait, ControlMessage::Hello(step), |control| (control == ready).then_some(()))
    }

    fn prepare(&mut self, step: Step) -> Result<(), Error> {
        let (size, most) = (step.size, self.channel.info().layout.most);
        match step.bench {
            Bench::Bulk | Bench::Volley => self.channel.transfer(size, step.bench == Bench::Volley),
            // The far side of our messages does not know their limit, and the near side has checked it.
            _ if most > 0 && size > most => Err(Error::TooLarge { driver: self.driver.name(), size, most }),
            Bench::Latency | Bench::Bandwidth | Bench::Rate | Bench::LogP => self.channel.prepare(size),
        }?;
        self.channel.lose(step.loss);
        Ok(())
    }

    /// Before missing messages may be called lost, wait until all have arrived, or no more do. A channel that loses
    /// nothing sends missing ones again, and control messages overtake them; on other channels a moment without
    /// arrivals suffices.
    fn settle(&mut self, step: u32, sent: u64) -> Result<(), Error> {
        let mut wait = self.wait("waiting for the last messages", self.timeouts.silence);
        let enough = if self.channel.window().is_some() { SETTLE_TIME } else { self.timeouts.silence };
        let (mut most, mut since) = (0, Instant::now());
        loop {
            let got = self.ask(&mut wait, ControlMessage::HowMany { step, sent }, |control| match control {
                ControlMessage::Got { step: s, messages, .. } if s == step => Some(messages),
                _ => None,
            })?;
            wait.active()?;
            let now = Instant::now();
            if got > most {
                (most, since) = (got, now);
            }
            if most >= sent || now - since >= enough {
                return Ok(());
            }
        }
    }

    /// End a measurement. Returns how many data messages the far side received in all.
    ///
    /// # Errors
    /// [`Error::Wrong`] if some were wrong, there or here (`wrong_here`).
    fn stop(&mut self, step: Step, wrong_here: u64) -> Result<u64, Error> {
        let mut wait = self.wait("ending a measurement", self.timeouts.silence);
        let (messages, wrong) =
            self.ask(&mut wait, ControlMessage::Stop { step: step.number }, |control| match control {
                ControlMessage::Stopped { step: s, messages, wrong } if s == step.number => Some((messages, wrong)),
                _ => None,
            })?;
        match wrong + wrong_here {
            0 => Ok(messages),
            wrong => Err(Error::Wrong { driver: self.driver.name(), bench: step.bench.name(), size: step.size, wrong }),
        }
    }

    /// End the stage. The far side may have confirmed it and be gone already, so its silence is no error.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.channel.lose(Loss::NONE);
        let mut wait = self.wait("ending a stage", self.timeouts.silence);
        match self.ask(&mut wait, ControlMessage::End, |control| (control == ControlMessage::Ended).then_some(())) {
            Err(Error::Silent { .. } | Error::Lost(_)) => Ok(()),
            other => other,
        }
    }

    /// Tell the far side that the near side leaves, so that it need not wait for a time-out. Whether it receives this
    /// does not matter: the user needs the reason for leaving.
    pub(crate) fn give_up(&mut self, why: &Error) {
        let limit = match why {
            Error::PeerGone(_) => return,
            // If this side was interrupted, or has waited already, allow no more than a delivery takes.
            Error::Interrupted { .. } | Error::Silent { .. } | Error::Lost(_) => SHORT_TIMEOUT,
            _ => Timeouts::default().silence,
        };
        self.channel.lose(Loss::NONE);
        // The reason to stop brought us here, so it must not end this wait.
        let watch = Watch::default();
        let mut wait = SpinWait::new(&watch, self.driver, "leaving", limit);
        let is_ended = |control| (control == ControlMessage::Ended).then_some(());
        let _ = self.ask(&mut wait, ControlMessage::GiveUp, is_ended);
    }

    fn ask<T>(
        &mut self,
        wait: &mut SpinWait<'_>,
        question: ControlMessage,
        answer: impl Fn(ControlMessage) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            if wait.ask()? {
                self.channel.send_control(question)?;
            }
            if let Some(answer) = self.channel.receive(BATCH)?.control.and_then(&answer) {
                return Ok(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{self, Faults};
    use super::*;

    /// Between measurements, and in the middle of one of each kind.
    #[test]
    fn who_gives_up_is_not_waited_for() {
        let faults = Faults { lose_controls: 2, ..Faults::default() };
        for bench in [None, Some(Bench::Latency), Some(Bench::Rate)] {
            let watch = Watch::default();
            let (told, far) = fake::both(faults, |channel| {
                let mut near = fake::open(channel, fake::TIMEOUTS, &watch);
                if let Some(bench) = bench {
                    let time = Duration::from_secs(600);
                    let step = Step { number: 1, bench, size: 16, loss: Loss::NONE, warm_up: time, time };
                    near.start(step)?;
                    near.channel.send(3)?;
                }
                near.give_up(&Error::NoIp(String::new()));
                Ok(())
            });
            assert!(told.is_ok() && matches!(far, Err(Error::GivenUp)), "{bench:?}: {far:?}");
        }
    }
}
