//! dp-graph as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything here takes when nothing is wrong.
const LONG: Duration = Duration::from_secs(60);

/// dp-graph with these arguments.
pub(crate) fn dp_graph(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp-graph"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The launcher, which is another package's.
pub(crate) fn am_run() -> PathBuf {
    let am_run = PathBuf::from(env!("CARGO_BIN_EXE_dp-graph")).with_file_name("am-run");
    assert!(am_run.exists(), "no {}: cargo build -p am-run", am_run.display());
    am_run
}

/// How it ended: the exit code, standard output, standard error.
pub(crate) fn end(command: &mut Command) -> (i32, String, String) {
    end_of(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// The same with outputs that are chosen.
pub(crate) fn end_of(command: &mut Command) -> (i32, String, String) {
    let child = command.spawn().expect("it starts");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it is ours");
    let [output, errors] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (status.code().unwrap_or(-1), output, errors)
}

/// A job that runs; dp-graph ends with this at the latest.
pub(crate) struct Job {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Job {
    /// Start the job, and read the processes' output until it has this many lines.
    pub(crate) fn start(mut command: Command, lines: usize) -> (Job, Vec<u32>) {
        am_run();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut pids = vec![];
        for _ in 0..lines {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            // On a terminal the table is cleared before each line.
            let pid = line.trim().rsplit(|letter: char| !letter.is_ascii_digit()).next();
            pids.push(pid.and_then(|pid| pid.parse().ok()).expect("a process id"));
        }
        (Job { child, output }, pids)
    }

    /// As if it were typed.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().expect("a pipe").write_all(bytes).expect("it reads");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// The process that it has started: am-run.
    pub(crate) fn am_run(&self) -> Pid {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let children = tasks.map(|task| std::fs::read_to_string(task.expect("a task").path().join("children")));
        let children: String = children.map(|text| text.expect("it runs")).collect();
        Pid::from_raw(children.trim().parse().expect("one child"))
    }

    /// Wait for the end: the exit code, and what it said since.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.child.try_wait().expect("it is ours").is_none() {
            assert!(start.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("a text");
        self.child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("a text");
        (self.child.wait().expect("it has ended").code(), text)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Wait until none of these processes is there.
pub(crate) fn gone(pids: &[u32]) {
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    let start = Instant::now();
    while pids.iter().any(runs) {
        assert!(start.elapsed() < LONG, "not gone");
        std::thread::sleep(Duration::from_millis(5));
    }
}
