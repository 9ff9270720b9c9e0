//! A process that is killed: this test program once more, which runs one of its ignored tests alone.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio, exit};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// What the process is told.
pub const PLACE: &str = "AM_TEST_PLACE";

/// The process; it ends with its standard input.
pub struct Receiver(pub Child);

impl Receiver {
    /// Start this test on the host of the calling thread, with something to read in [`PLACE`].
    pub fn start(test: &str, place: &str) -> Receiver {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "open"), "the receiver died before it was open");
        Receiver(child)
    }

    /// Stop it, with all its threads, so that it takes nothing more, and acknowledges nothing: some would go on for as
    /// long as the one that takes the signal waits for a processor.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    }

    /// Send it this signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// End it by `SIGKILL`, if that was not done.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the process itself: it is open, and ends with who started it.
pub fn is_open() {
    println!("\nopen");
    thread::spawn(|| {
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        exit(1);
    });
}
