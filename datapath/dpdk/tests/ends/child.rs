//! Tests that are processes of their own, started by others.

#![allow(dead_code)] // each test uses a part

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

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

    /// All that it says until it ends, which must be well.
    pub(crate) fn said(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "{text}");
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
