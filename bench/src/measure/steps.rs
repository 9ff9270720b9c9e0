//! The near side's control messages at the start and the end of a measurement.

use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::watch::Watch;

use super::{BATCH, Channel, ControlMessage, SpinWait, Step, Timeouts};

/// Announce a measurement, and wait until the far side is ready.
pub(crate) fn start(
    channel: &mut dyn Channel,
    driver: Driver,
    step: Step,
    timeouts: Timeouts,
    watch: &Watch,
) -> Result<(), Error> {
    prepare(channel, step)?;
    channel.lose(step.loss);
    let mut wait = SpinWait::new(watch, driver, "beginning a measurement", timeouts.open);
    let ready = ControlMessage::Ready { step: step.number };
    ask(channel, &mut wait, ControlMessage::Hello(step), |control| (control == ready).then_some(()))
}

/// Prepare a channel for this measurement.
pub(crate) fn prepare(channel: &mut dyn Channel, step: Step) -> Result<(), Error> {
    match step.bench {
        Bench::Bulk => channel.transfer(step.size),
        Bench::Volley => channel.volley(step.size),
        Bench::Latency | Bench::Bandwidth | Bench::Rate => channel.prepare(step.size),
    }
}

/// Before missing messages may be called lost, wait until all have arrived, or no more do. A channel that loses nothing
/// sends missing ones again, and control messages overtake them; on other channels a moment without arrivals suffices.
pub(crate) fn settle(
    channel: &mut dyn Channel,
    driver: Driver,
    (step, sent): (u32, u64),
    timeouts: Timeouts,
    watch: &Watch,
) -> Result<(), Error> {
    let mut wait = SpinWait::new(watch, driver, "waiting for the last messages", timeouts.silence);
    let enough = if channel.window().is_some() { SETTLE_TIME } else { timeouts.silence };
    let (mut most, mut since) = (0, Instant::now());
    loop {
        let got = ask(channel, &mut wait, ControlMessage::HowMany { step, sent }, |control| match control {
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

/// After this time, a lossy network has delivered what it will deliver.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// End a measurement. Returns how many data messages the far side received in all.
///
/// # Errors
/// [`Error::Wrong`] if some were wrong, there or here (`wrong_here`).
pub(crate) fn stop(
    channel: &mut dyn Channel,
    driver: Driver,
    (step, wrong_here): (Step, u64),
    timeouts: Timeouts,
    watch: &Watch,
) -> Result<u64, Error> {
    let mut wait = SpinWait::new(watch, driver, "ending a measurement", timeouts.silence);
    let (messages, wrong) =
        ask(channel, &mut wait, ControlMessage::Stop { step: step.number }, |control| match control {
            ControlMessage::Stopped { step: s, messages, wrong } if s == step.number => Some((messages, wrong)),
            _ => None,
        })?;
    match wrong + wrong_here {
        0 => Ok(messages),
        wrong => Err(Error::Wrong { driver, bench: step.bench, size: step.size, wrong }),
    }
}

/// End the stage. The far side may have confirmed it and be gone already, so its silence is no error.
pub(crate) fn end(channel: &mut dyn Channel, driver: Driver, timeouts: Timeouts, watch: &Watch) -> Result<(), Error> {
    channel.lose(Loss::NONE);
    let mut wait = SpinWait::new(watch, driver, "ending a stage", timeouts.silence);
    match ask(channel, &mut wait, ControlMessage::End, |control| (control == ControlMessage::Ended).then_some(())) {
        Err(Error::Silent { .. } | Error::Lost(_)) => Ok(()),
        other => other,
    }
}

/// Tell the far side that the near side leaves, so that it need not wait for a time-out. Whether it receives this does
/// not matter: the user needs the reason for leaving.
pub(crate) fn give_up(channel: &mut dyn Channel, driver: Driver, why: &Error) {
    let timeouts = match why {
        Error::PeerGone(_) => return,
        // If this side was interrupted, or has waited already, allow no more than a delivery takes.
        Error::Interrupted { .. } | Error::Silent { .. } | Error::Lost(_) => SHORT_TIMEOUT,
        _ => Timeouts::default().silence,
    };
    channel.lose(Loss::NONE);
    // The reason to stop brought us here, so it must not end this wait.
    let watch = Watch::default();
    let mut wait = SpinWait::new(&watch, driver, "leaving", timeouts);
    let _ = ask(channel, &mut wait, ControlMessage::GiveUp, |control| (control == ControlMessage::Ended).then_some(()));
}

/// Enough for many repetitions, and short for a user.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

/// How long the far side stays to repeat its confirmation: a few of the near side's questions.
pub(crate) const CONFIRM_TIME: Duration = Duration::from_millis(10);

fn ask<T>(
    channel: &mut dyn Channel,
    wait: &mut SpinWait<'_>,
    question: ControlMessage,
    answer: impl Fn(ControlMessage) -> Option<T>,
) -> Result<T, Error> {
    loop {
        if wait.ask()? {
            channel.send_control(question)?;
        }
        if let Some(answer) = channel.receive(BATCH)?.control.and_then(&answer) {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Faults};
    use super::*;

    /// Between measurements, and in the middle of one of each kind.
    #[test]
    fn who_gives_up_is_not_waited_for() {
        let faults = Faults { lose_controls: 2, ..Faults::default() };
        for bench in [None, Some(Bench::Latency), Some(Bench::Rate)] {
            let (told, far) = fake::both(faults, |channel| {
                if let Some(bench) = bench {
                    let time = Duration::from_secs(600);
                    let step = Step { number: 1, bench, size: 16, loss: Loss::NONE, warm_up: time, time };
                    start(channel, Driver::Raw, step, fake::TIMEOUTS, &Watch::default())?;
                    channel.send(3)?;
                }
                give_up(channel, Driver::Raw, &Error::NoIp(String::new()));
                Ok(())
            });
            assert!(told.is_ok() && matches!(far, Err(Error::GivenUp)), "{bench:?}: {far:?}");
        }
    }
}
