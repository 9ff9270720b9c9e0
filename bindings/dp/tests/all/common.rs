//! Processes of a graph, each with its NID.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::program::Program;

/// Longer than anything here takes when nothing is wrong.
const LONG: Duration = Duration::from_secs(120);

/// A table of nodes, as a file.
pub(crate) fn table(lines: &[String]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines.join("\n")).expect("it is written");
    file
}

/// A free port of UDP.
pub(crate) fn udp_line(nid: usize) -> String {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    format!("{nid} udp:{}", socket.local_addr().expect("it is bound"))
}

/// How processes find each other.
#[derive(Clone, Copy)]
pub(crate) enum Nodes<'a> {
    Table(&'a Path),
    Transport(&'a str),
}

/// A process that ends with this at the latest.
pub(crate) struct Process(Option<Child>);

/// Start a program as this node.
pub(crate) fn start(program: &Program, nid: usize, nodes: Nodes<'_>, arguments: &[&str]) -> Process {
    start_with(program, nid, nodes, arguments, |_| {})
}

pub(crate) fn start_with(
    program: &Program,
    nid: usize,
    nodes: Nodes<'_>,
    arguments: &[&str],
    set: impl FnOnce(&mut Command),
) -> Process {
    let mut command = Command::new(program.path());
    command.args(arguments).env("LD_LIBRARY_PATH", program.libraries()).env("DP_NID", nid.to_string());
    match nodes {
        Nodes::Table(path) => command.env("DP_NODES", path),
        Nodes::Transport(name) => command.env("AM_TRANSPORT", name),
    };
    set(&mut command);
    Process::of(&mut command)
}

impl Process {
    pub(crate) fn of(command: &mut Command) -> Process {
        Process(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")))
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        use std::io::Read;
        let stdout = self.0.as_mut().and_then(|child| child.stdout.as_mut()).expect("it runs");
        let (mut line, mut byte) = (vec![], [0]);
        while stdout.read(&mut byte).expect("it speaks") == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("a text")
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Wait for its end, which has to be a good one. Returns what it said.
    pub(crate) fn end(mut self) -> String {
        let start = Instant::now();
        let child = self.0.as_mut().expect("it runs");
        while child.try_wait().expect("it is ours").is_none() && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
        }
        _ = child.kill();
        let Output { status, stdout, stderr } = self.0.take().expect("it ran").wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "{status}\n{said}{}", String::from_utf8_lossy(&stderr));
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}
