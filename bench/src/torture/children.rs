//! The two processes, as the one that started them sees them.

use std::env::current_exe;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use hosts::Host;
use serde::{Deserialize, Serialize};

use super::Plan;
use super::verdict::Outcome;
use crate::deploy::pipe::{Lines, write_line};
use crate::error::Error;
use crate::watch::Watch;

/// Opening, connecting and ending take so long at most.
const PATIENCE: Duration = Duration::from_secs(20);
/// Nothing has come: look again.
const NOTHING: Duration = Duration::from_millis(1);

/// What a process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Line {
    /// It is ready; its region.
    Open(u32),
    /// So many more messages have arrived there.
    Arrived(u64),
    /// All have.
    Complete,
    /// In the end.
    Outcome(Outcome),
}

/// One of them; ended when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    plans: Option<ChildStdin>,
    lines: Lines<Line>,
}

impl Child {
    /// Start it on a host.
    pub(super) fn start(host: &Host, plan: &Plan) -> Result<Child, Error> {
        let program = current_exe().map_err(Error::system("finding this program"))?;
        let start = || {
            let command = &mut Command::new(program);
            // Ctrl-C is for who started it.
            command.arg("tortured").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()
        };
        let mut process = host.enter(start)?.map_err(Error::system("starting a process"))?;
        let (plans, lines) = (process.stdin.take(), process.stdout.take());
        let lines = Lines::read(lines.ok_or_else(no_pipe)?, || {});
        let mut child = Child { process, plans, lines };
        write_line(child.plans.as_mut().ok_or_else(no_pipe)?, plan)?;
        Ok(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Wait until it is ready; its region.
    pub(super) fn open(&mut self, watch: &Watch) -> Result<u32, Error> {
        match self.lines.next(PATIENCE, watch)?.ok_or_else(gone)? {
            Line::Open(region) => Ok(region),
            other => Err(Error::Refused(format!("{other:?} before it was open"))),
        }
    }

    /// What it has to say, if anything.
    pub(super) fn next(&mut self, within: Duration, watch: &Watch) -> Result<Option<Line>, Error> {
        self.lines.poll(within.max(NOTHING), watch)
    }

    /// Tell it to end; how it went.
    pub(super) fn end(&mut self, watch: &Watch) -> Result<Outcome, Error> {
        drop(self.plans.take());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(Line::Outcome(outcome)) = self.next(PATIENCE / 10, watch)? {
                return Ok(outcome);
            }
        }
        Err(gone())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn no_pipe() -> Error {
    Error::PeerGone("it was started without a pipe".to_owned())
}

fn gone() -> Error {
    Error::PeerGone("it was killed, or failed as it says above".to_owned())
}
