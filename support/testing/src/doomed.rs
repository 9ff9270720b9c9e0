//! A process that is killed: this test program once more, which runs one of its ignored tests alone.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio, exit};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// The variable with the process's place.
pub const PLACE: &str = "AM_TEST_PLACE";

/// The process; it ends with its standard input.
pub struct Receiver(pub Child);

impl Receiver {
    /// Start this test on the host of the calling thread, with these variables set.
    pub fn begin(test: &str, variables: &[(&str, &str)]) -> Receiver {
        Receiver::spawn(Command::new(std::env::current_exe().unwrap()), test, variables)
    }

    fn spawn(mut command: Command, test: &str, variables: &[(&str, &str)]) -> Receiver {
        command.args([test, "--exact", "--ignored", "--nocapture"]).envs(variables.iter().copied());
        Receiver(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Start it, and wait until it is open.
    pub fn open(test: &str, variables: &[(&str, &str)]) -> Receiver {
        Receiver::begin(test, variables).opened(test)
    }

    /// The same under another program: `strace` with its arguments.
    pub fn open_under(mut by: Command, test: &str, variables: &[(&str, &str)]) -> Receiver {
        by.arg(std::env::current_exe().unwrap());
        Receiver::spawn(by, test, variables).opened(test)
    }

    fn opened(self, test: &str) -> Receiver {
        let mut receiver = self;
        let mut lines = BufReader::new(receiver.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "open"), "{test} ended before it was open");
        receiver
    }

    /// Start it with something to read in [`PLACE`], and wait until it is open.
    pub fn start(test: &str, place: &str) -> Receiver {
        Receiver::open(test, &[(PLACE, place)])
    }

    /// All that it says until it ends, which must be well.
    pub fn said(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        // A program without a test of that name passes, too.
        assert!(self.0.wait().unwrap().success() && text.contains("1 passed"), "{text}");
        text
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
