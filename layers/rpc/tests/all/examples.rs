//! The example as programs, over transports of several kinds.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// The example, where cargo has put it beside this test.
fn kv() -> Command {
    let mut path = env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let path = path.join("examples/kv");
    assert!(path.exists(), "{} is not there: cargo build -p am-rpc --example kv", path.display());
    Command::new(path)
}

/// A process, which ends with the test; and the transport that it says.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it runs");
    }
}

fn serve(on: &str) -> Server {
    let mut child = kv().args(["serve", on]).stdout(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let place = line.strip_prefix("serving on ").and_then(|rest| rest.split(" (").next()).expect(&line).to_owned();
    Server(child, place)
}

fn printed(output: Output) -> String {
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{errors}{printed}");
    printed.into_owned()
}

fn ask(on: &str, what: &[&str]) -> String {
    printed(kv().args(["beta", on]).args(what).output().expect("started"))
}

fn serves(on: &str) {
    let server = serve(on);
    let on = match server.1.strip_prefix("udp:") {
        Some(place) => format!("udp:127.0.0.1:0,peer={place}"),
        None => on.to_owned(),
    };
    assert_eq!(ask(&on, &["get", "color"]), "nothing\n");
    assert_eq!(ask(&on, &["put", "color", "green"]), "");
    assert_eq!(ask(&on, &["get", "color"]), "green\n");
    let watch = kv().args(["beta", &on, "watch", "si"]).stdout(Stdio::piped()).spawn().expect("started");
    let mut watch = Server(watch, String::new());
    let mut lines = BufReader::new(watch.0.stdout.take().expect("a pipe")).lines();
    // It watches from some time on.
    let (long, is_over) = ("7".repeat(50_000), Arc::new(AtomicBool::new(false)));
    let (until, wire, value) = (is_over.clone(), on.clone(), long.clone());
    let puts = thread::spawn(move || {
        while !until.load(SeqCst) {
            assert_eq!(ask(&wire, &["put", "size", &value]), "");
            assert_eq!(ask(&wire, &["put", "color", "blue"]), "");
        }
    });
    for _ in 0..2 {
        assert_eq!(lines.next().expect("a change").expect("a line"), format!("size {long}"));
    }
    is_over.store(true, SeqCst);
    puts.join().expect("no panic");
}

#[test]
fn kv_serves_over_shared_memory_and_udp() {
    serves(&format!("shm:am-kv-{}", std::process::id()));
    serves("udp:127.0.0.1:0");
}

#[test]
fn kv_says_what_is_wrong() {
    for (arguments, text) in [
        (&[][..], "usage: kv serve TRANSPORT"),
        (&["beta", "sim:1", "put", "key"], "say get KEY"),
        (&["beta", "nowhere:1", "get", "key"], "nowhere"),
        (&["a name that is longer than thirty-one bytes", "sim:1", "get", "key"], "is no name"),
    ] {
        let output = kv().args(arguments).output().expect("started");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(text), "{arguments:?}: {errors}");
    }
}
