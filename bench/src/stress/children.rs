//! The two processes, as their parent sees them.

use std::process::ChildStdin;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Plan;
use super::verdict::Outcome;
use crate::deploy::child;
use crate::deploy::pipe::{Lines, write_line};
use crate::error::Error;
use crate::watch::Watch;

/// The limit of opening, connecting and ending.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one look for a line may wait, at least.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// A line from a child process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Line {
    /// It is ready; the id of its region.
    Open(u32),
    /// How many more messages have arrived there.
    Arrived(u64),
    /// All have arrived.
    Complete,
    /// Its last line.
    Outcome(Outcome),
}

/// A child process; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Child {
    /// Closed first, because that ends the process.
    plans: Option<ChildStdin>,
    process: child::Child,
    lines: Lines<Line>,
}

impl Child {
    /// Start it on the host of the calling thread.
    pub(super) fn start(plan: &Plan) -> Result<Child, Error> {
        let mut process = child::Child::start(&["stress-child"])?;
        let (mut plans, lines) = process.pipes()?;
        write_line(&mut plans, plan)?;
        Ok(Child { plans: Some(plans), process, lines: Lines::read(lines, || {}) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Wait until it is ready. Returns the id of its region.
    pub(super) fn open(&mut self, watch: &Watch) -> Result<u32, Error> {
        match self.lines.next(PATIENCE, watch)?.ok_or_else(Error::gone)? {
            Line::Open(region) => Ok(region),
            other => Err(Error::Refused(format!("{other:?} before it was open"))),
        }
    }

    /// The next line, if one arrives within this time.
    pub(super) fn next(&mut self, within: Duration, watch: &Watch) -> Result<Option<Line>, Error> {
        self.lines.poll(within.max(MIN_WAIT), watch)
    }

    /// Tell it to end. Returns its outcome.
    pub(super) fn end(&mut self, watch: &Watch) -> Result<Outcome, Error> {
        drop(self.plans.take());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(Line::Outcome(outcome)) = self.next(PATIENCE / 10, watch)? {
                return Ok(outcome);
            }
        }
        Err(Error::gone())
    }
}
