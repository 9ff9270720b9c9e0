//! Jobs: am-run with arguments, what it says, and its end.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything here takes when nothing is wrong.
pub const LONG: Duration = Duration::from_secs(120);

/// An example of this crate, beside the tests.
pub fn example(name: &str) -> String {
    let test = std::env::current_exe().expect("this test's file");
    let built = test.ancestors().nth(2).expect("cargo's directory").join("examples").join(name);
    assert!(built.exists(), "no {}: cargo build --example {name}", built.display());
    built.display().to_string()
}

/// A command that runs am-run.
pub fn am_run() -> Command {
    Command::new(env!("CARGO_BIN_EXE_am-run"))
}

/// How a job ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub output: Vec<String>,
    pub errors: Vec<String>,
}

impl Ended {
    pub fn output(&self) -> String {
        self.output.join("\n")
    }

    pub fn errors(&self) -> String {
        self.errors.join("\n")
    }
}

/// A job that runs. It ends with this at the latest.
pub struct Job {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Receiver<String>,
    errors: Receiver<String>,
    seen: Vec<String>,
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

impl Job {
    pub fn start(command: &mut Command) -> Job {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let output = lines(child.stdout.take().expect("a pipe"));
        let errors = lines(child.stderr.take().expect("a pipe"));
        let stdin = child.stdin.take();
        Job { child, stdin, output, errors, seen: vec![] }
    }

    /// am-run with these arguments.
    pub fn of(arguments: &[&str]) -> Job {
        Job::start(am_run().args(arguments))
    }

    /// The next line of output.
    pub fn line(&mut self) -> String {
        let line =
            self.output.recv_timeout(LONG).unwrap_or_else(|_| panic!("no more output; errors: {:?}", self.rest()));
        self.seen.push(line.clone());
        line
    }

    fn rest(&self) -> Vec<String> {
        self.errors.try_iter().collect()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("open").write_all(bytes).expect("it reads");
    }

    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Wait for the end.
    pub fn end(mut self) -> Ended {
        let start = Instant::now();
        while self.child.try_wait().expect("it is ours").is_none() {
            assert!(start.elapsed() < LONG, "it does not end; errors: {:?}", self.rest());
            thread::sleep(Duration::from_millis(5));
        }
        let code = self.child.wait().expect("it has ended").code();
        // The pipes have ended, unless something is left behind that holds them.
        let all = |from: &Receiver<String>| {
            let next = || from.recv_timeout(Duration::from_secs(20));
            let mut lines = vec![];
            loop {
                match next() {
                    Ok(line) => lines.push(line),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return lines,
                    Err(mpsc::RecvTimeoutError::Timeout) => panic!("something holds the pipe open: {lines:?}"),
                }
            }
        };
        let mut output = std::mem::take(&mut self.seen);
        output.extend(all(&self.output));
        Ended { code, output, errors: all(&self.errors) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Whether a process is there and no zombie.
pub fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// A process's state, as in `/proc/PID/stat`.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Wait until this holds.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "not {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let paths = tasks.map(|task| -> PathBuf { task.expect("a task").path().join("children") });
    let texts = paths.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    texts.flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
