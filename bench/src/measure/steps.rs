//! The near side's control messages at the start and the end of a measurement.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::via::Via;
use crate::watch::Watch;

use super::{BATCH, Note, Pace, Patience, Port, Step};

/// Announce a measurement, and wait until the far side is ready.
pub(crate) fn start(port: &mut dyn Port, via: Via, step: Step, patience: Patience, watch: &Watch) -> Result<(), Error> {
    prepare(port, step)?;
    port.lose(step.loss);
    let mut pace = Pace::new(watch, via, "beginning a measurement", patience.open);
    let ready = Note::Ready { step: step.number };
    ask(port, &mut pace, Note::Hello(step), |note| (note == ready).then_some(()))
}

/// Prepare a channel for this measurement.
pub(crate) fn prepare(port: &mut dyn Port, step: Step) -> Result<(), Error> {
    match step.bench {
        Bench::Bulk => port.transfer(step.size),
        Bench::Volley => port.volley(step.size),
        Bench::Latency | Bench::Bandwidth | Bench::Rate => port.prepare(step.size),
    }
}

/// Before missing messages may be called lost, wait until all have arrived, or no more do. A channel that loses nothing
/// sends missing ones again, and control messages overtake them; on other channels a moment without arrivals suffices.
pub(crate) fn settle(
    port: &mut dyn Port,
    via: Via,
    (step, sent): (u32, u64),
    patience: Patience,
    watch: &Watch,
) -> Result<(), Error> {
    let mut pace = Pace::new(watch, via, "waiting for the last messages", patience.silence);
    let enough = if port.window().is_some() { MOMENT } else { patience.silence };
    let (mut most, mut since) = (0, Instant::now());
    loop {
        let got = ask(port, &mut pace, Note::HowMany { step, sent }, |note| match note {
            Note::Got { step: s, messages, .. } if s == step => Some(messages),
            _ => None,
        })?;
        pace.hearing()?;
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
const MOMENT: Duration = Duration::from_millis(20);

/// End a measurement. Returns how many data messages the far side received in all.
///
/// # Errors
/// [`Error::Wrong`] if some were wrong, there or here (`wrong_here`).
pub(crate) fn stop(
    port: &mut dyn Port,
    via: Via,
    (step, wrong_here): (Step, u64),
    patience: Patience,
    watch: &Watch,
) -> Result<u64, Error> {
    let mut pace = Pace::new(watch, via, "ending a measurement", patience.silence);
    let (messages, wrong) = ask(port, &mut pace, Note::Stop { step: step.number }, |note| match note {
        Note::Stopped { step: s, messages, wrong } if s == step.number => Some((messages, wrong)),
        _ => None,
    })?;
    match wrong + wrong_here {
        0 => Ok(messages),
        wrong => Err(Error::Wrong { via, bench: step.bench, size: step.size, wrong }),
    }
}

/// End the stage. The far side may have confirmed it and be gone already, so its silence is no error.
pub(crate) fn end(port: &mut dyn Port, via: Via, patience: Patience, watch: &Watch) -> Result<(), Error> {
    port.lose(Loss::NONE);
    let mut pace = Pace::new(watch, via, "ending a stage", patience.silence);
    match ask(port, &mut pace, Note::End, |note| (note == Note::Ended).then_some(())) {
        Err(Error::Silent { .. } | Error::Lost(_)) => Ok(()),
        other => other,
    }
}

/// Tell the far side that the near side leaves, so that it need not wait for a time-out. Whether it receives this does
/// not matter: the user needs the reason for leaving.
pub(crate) fn give_up(port: &mut dyn Port, via: Via, why: &Error) {
    let patience = match why {
        Error::PeerGone(_) => return,
        // If this side was interrupted, or has waited already, allow no more than a delivery takes.
        Error::Interrupted { .. } | Error::Silent { .. } | Error::Lost(_) => SHORT,
        _ => Patience::default().silence,
    };
    port.lose(Loss::NONE);
    // The reason to stop brought us here, so it must not end this wait.
    let watch = Watch::default();
    let mut pace = Pace::new(&watch, via, "leaving", patience);
    let _ = ask(port, &mut pace, Note::GiveUp, |note| (note == Note::Ended).then_some(()));
}

/// Enough for many repetitions, and short for a user.
const SHORT: Duration = Duration::from_millis(300);

/// How long the far side stays to repeat its confirmation: a few of the near side's questions.
pub(crate) const STAY: Duration = Duration::from_millis(10);

fn ask<T>(
    port: &mut dyn Port,
    pace: &mut Pace<'_>,
    question: Note,
    answer: impl Fn(Note) -> Option<T>,
) -> Result<T, Error> {
    loop {
        if pace.ask()? {
            port.tell(question)?;
        }
        if let Some(answer) = port.receive(BATCH)?.note.and_then(&answer) {
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
        let faults = Faults { lose_notes: 2, ..Faults::default() };
        for bench in [None, Some(Bench::Latency), Some(Bench::Rate)] {
            let (told, far) = fake::both(faults, |port| {
                if let Some(bench) = bench {
                    let time = Duration::from_secs(600);
                    let step = Step { number: 1, bench, size: 16, loss: Loss::NONE, warm_up: time, time };
                    start(port, Via::Raw, step, fake::PATIENCE, &Watch::default())?;
                    port.send(3)?;
                }
                give_up(port, Via::Raw, &Error::NoIp(String::new()));
                Ok(())
            });
            assert!(told.is_ok() && matches!(far, Err(Error::GivenUp)), "{bench:?}: {far:?}");
        }
    }
}
