//! The near side's questions around a measurement.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::loss::Loss;
use crate::plan::{Bench, Via};
use crate::watch::Watch;

use super::{BATCH, Note, Pace, Patience, Port, Step};

/// Announce a measurement and wait until the far side is ready for it.
pub(crate) fn start(port: &mut dyn Port, via: Via, step: Step, patience: Patience, watch: &Watch) -> Result<(), Error> {
    prepare(port, step)?;
    port.lose(step.loss);
    let mut pace = Pace::new(watch, via, "beginning a measurement", patience.open);
    let ready = Note::Ready { step: step.number };
    ask(port, &mut pace, Note::Hello(step), |note| (note == ready).then_some(()))
}

/// What is sent from now on is as this measurement has it.
pub(crate) fn prepare(port: &mut dyn Port, step: Step) -> Result<(), Error> {
    if step.bench == Bench::Bulk && port.segment().is_some() {
        port.transfer(step.size)
    } else {
        port.prepare(step.size)
    }
}

/// Before what is missing may be called lost: wait until all that was sent has
/// come, or no more does. Where a port loses nothing, what is missing is sent
/// again, while notes overtake it; elsewhere a moment of silence tells.
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

/// What a network that loses has not delivered after so long, it has lost.
const MOMENT: Duration = Duration::from_millis(20);

/// End a measurement; returns how many data messages the far side got in all.
pub(crate) fn stop(port: &mut dyn Port, via: Via, step: u32, patience: Patience, watch: &Watch) -> Result<u64, Error> {
    let mut pace = Pace::new(watch, via, "ending a measurement", patience.silence);
    ask(port, &mut pace, Note::Stop { step }, |note| match note {
        Note::Stopped { step: s, messages } if s == step => Some(messages),
        _ => None,
    })
}

/// End the stage. The far side may have understood and gone already: that it
/// is not heard any more is no error.
pub(crate) fn end(port: &mut dyn Port, via: Via, patience: Patience, watch: &Watch) -> Result<(), Error> {
    port.lose(Loss::NONE);
    let mut pace = Pace::new(watch, via, "ending a stage", patience.silence);
    match ask(port, &mut pace, Note::End, |note| (note == Note::Ended).then_some(())) {
        Err(Error::Silent { .. } | Error::Lost(_)) => Ok(()),
        other => other,
    }
}

/// The far side stays so long to repeat its farewell: a few of the near side's questions.
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
