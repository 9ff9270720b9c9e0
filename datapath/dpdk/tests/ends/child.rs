//! Tests that are processes of their own, started by others.

#![allow(dead_code)] // each test uses a part

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// A test of this program, running: killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Start it, with these variables set.
    pub(crate) fn start(test: &str, variables: &[(&str, &str)]) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture"]).envs(variables.iter().copied());
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// Start it, and wait until it says that it is open.
    pub(crate) fn open(test: &str, variables: &[(&str, &str)]) -> Running {
        let mut running = Running::start(test, variables);
        let mut lines = BufReader::new(running.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "open"), "{test} ended before it was open");
        running
    }

    /// Stop it, with all its threads: some would go on for as long as the one that takes the signal waits for a
    /// processor.
    pub(crate) fn stop(&self) {
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    }

    pub(crate) fn go_on(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// All that it says until it ends, which must be well.
    pub(crate) fn said(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        // A program without a test of that name passes, too.
        assert!(self.0.wait().unwrap().success() && text.contains("1 passed"), "{text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
