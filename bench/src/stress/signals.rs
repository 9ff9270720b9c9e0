//! Sends `SIGSTOP` and `SIGCONT` at random to both processes.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::content::mix;

/// The longest time that a process runs between two stops, and the longest stop.
const MAX_RUNNING: Duration = Duration::from_millis(1500);
const MAX_STOP: Duration = Duration::from_millis(120);

/// Stops and continues child processes. They are waited for only after this has ended, so their ids stay valid.
#[derive(Debug)]
pub(super) struct StopSignals {
    pids: [Pid; 2],
    /// When the next signal is due, and whether it continues the process, as the first does.
    due: [(Instant, bool); 2],
    random: u64,
    on: bool,
    /// How often each process was stopped.
    pub(super) count: [u64; 2],
}

impl StopSignals {
    /// Without a seed, nothing is stopped.
    pub(super) fn new(pids: [u32; 2], seed: Option<u64>) -> StopSignals {
        let (pids, due) = (pids.map(|pid| Pid::from_raw(pid as i32)), [(Instant::now(), true); 2]);
        StopSignals { pids, due, random: seed.unwrap_or(0), on: seed.is_some(), count: [0; 2] }
    }

    /// Send the signals that are due.
    pub(super) fn turn(&mut self) {
        let now = Instant::now();
        for at in 0..self.pids.len() {
            let (due, continues) = self.due[at];
            if !self.on || now < due {
                continue;
            }
            self.count[at] += !continues as u64;
            // A process that has ended is noticed by its standard output.
            let _ = kill(self.pids[at], if continues { Signal::SIGCONT } else { Signal::SIGSTOP });
            let most = if continues { MAX_RUNNING } else { MAX_STOP };
            self.due[at] = (now + within(most, &mut self.random), !continues);
        }
    }

    /// Let both processes run from now on.
    pub(super) fn end(&mut self) {
        self.on = false;
        for pid in self.pids {
            let _ = kill(pid, Signal::SIGCONT);
        }
    }
}

/// A random time.
pub(super) fn within(most: Duration, random: &mut u64) -> Duration {
    *random = mix(*random);
    most.mul_f64((*random >> 11) as f64 / (1u64 << 53) as f64)
}
