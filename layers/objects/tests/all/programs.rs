//! The examples as programs: what several workers compute is what one computes, and a store has what was put.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio, id};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::LONG;

fn path(name: &str) -> PathBuf {
    let mut path = env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} is not there: cargo build -p am-objects --example {name}", path.display());
    path
}

/// A program, and the lines that it prints. It ends with the test.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Program {
    fn start(arguments: &[&str]) -> Program {
        let mut child =
            Command::new(path("object_store")).args(arguments).stdout(Stdio::piped()).spawn().expect("started");
        let printed = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (to, lines) = channel();
        thread::spawn(move || printed.map_while(Result::ok).try_for_each(|line| to.send(line)));
        Program { child, lines }
    }

    fn until(&self, line: &str) {
        let mut printed = vec![];
        while printed.last().is_none_or(|last| last != line) {
            let next = self.lines.recv_timeout(LONG);
            printed.push(next.unwrap_or_else(|_| panic!("not {line}: {printed:#?}")));
        }
    }

    fn ends_by(mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Run a program to its end.
fn run(name: &str, arguments: &[&str]) -> Output {
    Command::new(path(name)).args(arguments).output().expect("started")
}

/// Two workers compute what one thread computes.
fn is_equal(name: &str, arguments: &[&str]) {
    let place = format!("shm:am-objects-{name}-{}", id());
    let output = run(name, &[&["2", &place], arguments].concat());
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}{errors}");
    let two = table.lines().last().unwrap_or_default().split_whitespace();
    let (first, last) = (two.clone().next(), two.last());
    assert_eq!((first, last), (Some("2"), Some("yes")), "{table}");
}

#[test]
fn two_workers_find_the_shortest_tour() {
    is_equal("tsp", &["9"]);
}

#[test]
fn two_workers_solve_the_equations() {
    is_equal("equations", &["40", "100"]);
}

#[test]
fn two_workers_move_the_molecules() {
    is_equal("water", &["30", "20"]);
}

#[test]
fn a_store_has_what_was_put_and_outlives_its_founder() {
    let place = format!("shm:am-objects-store-{}", id());
    let client = |arguments: &[&str]| {
        let output = run("object_store", arguments);
        let printed = String::from_utf8_lossy(&output.stdout).trim_end().to_string();
        (printed, output.status.success())
    };
    let alpha = Program::start(&["serve", "alpha", &place]);
    alpha.until("* members: alpha");
    let beta = Program::start(&["serve", "beta", &place, "alpha"]);
    alpha.until("* members: alpha, beta");
    assert_eq!(client(&["get", "c1", &place, "alpha", "color"]), (String::new(), false));
    let watch = Program::start(&["watch", "w1", &place, "beta", "color"]);
    for (value, version) in [("green", "1"), ("blue", "2")] {
        assert_eq!(client(&["put", "c2", &place, "alpha", "color", value]), (version.into(), true));
        watch.until(value);
        assert_eq!(client(&["get", "c3", &place, "beta", "color"]), (value.into(), true));
    }
    watch.ends_by(Signal::SIGTERM);
    alpha.ends_by(Signal::SIGTERM);
    assert_eq!(client(&["get", "c4", &place, "beta", "color"]), ("blue".into(), true));
    beta.ends_by(Signal::SIGINT);
}

#[test]
fn a_client_without_a_server_says_so() {
    let place = format!("shm:am-objects-nobody-{}", id());
    let output = run("object_store", &["get", "c1", &place, "alpha", "color"]);
    assert!(!output.status.success() && !output.stderr.is_empty());
}

#[test]
fn a_program_explains_its_arguments() {
    for name in ["object_store", "tsp", "equations", "water", "while_computing"] {
        let help = run(name, &["--help"]);
        assert_eq!((help.status.code(), help.stderr.is_empty()), (Some(0), true), "{name}");
        assert!(String::from_utf8_lossy(&help.stdout).contains("Usage:"), "{name}");
    }
    let wrong: [&[&str]; 7] = [
        &["object_store"],
        &["object_store", "put", "c1", "shm:lab", "alpha", "color"],
        &["tsp", "0"],
        &["equations", "65"],
        &["water", "two"],
        &["while_computing", "shm:lab", "-1"],
        &["while_computing", "shm:lab", "0"],
    ];
    for arguments in wrong {
        let output = run(arguments[0], &arguments[1..]);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

/// One thread would compute the equations for minutes.
#[test]
fn a_transport_without_room_for_all_workers_is_named_at_once() {
    let place = format!("shm:am-objects-room-{},members=2", id());
    for (name, size) in [("tsp", "20"), ("equations", "3000"), ("water", "3000")] {
        let output = run(name, &["3", &place, size]);
        let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() && printed.is_empty(), "{name}: {printed}");
        assert!(errors.contains("members="), "{name}: {errors}");
    }
}

/// Each node has an address that the other one does not know.
#[test]
fn a_worker_that_cannot_join_says_why() {
    let output = run("tsp", &["2", "udp:127.0.0.1:0", "5"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("tsp2-0"), "{errors}");
}
