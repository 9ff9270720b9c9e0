//! The program `ledger` without root: it finds a handler that is called twice, killed clients leave nothing behind, and neither does it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn ledger(arguments: &[&str]) -> Command {
    let mut ledger = Command::new(env!("CARGO_BIN_EXE_ledger"));
    ledger.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    ledger
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_handler_that_is_called_twice_is_found() {
    let run = ["run", "--requests", "20000", "--faults", "0", "--pause", "60000", "shm"];
    let output = ledger(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let output = ledger(&[&run[..], &["--twice"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("Handled 999 a second time"), "{}", text(&output));
}

#[test]
fn frames_that_are_lost_are_sent_again() {
    let run =
        ["run", "--json", "--requests", "50000", "--faults", "4", "--pause", "300", "--silence", "300", "--loss", "1"];
    let output = ledger(&[&run[..], &["shm", "udp"]].concat()).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for line in lines {
        // A process that is killed has not noted what it lost.
        assert!(line["lost"].as_u64() > Some(0) && line["replied"].as_u64() > Some(10_000), "{line}");
        assert_eq!(line["wrong"], 0, "{said}");
    }
}

#[test]
fn clients_that_are_killed_leave_nothing() {
    let mut killed = Command::new("true").spawn().unwrap();
    killed.wait().unwrap();
    let place = format!("/dev/shm/am-ledger-{}-x", killed.id());
    std::fs::create_dir(&place).unwrap();
    let output = ledger(&["churn", "--clients", "80", "--keepalive", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!std::path::Path::new(&place).exists(), "what a driver that was killed had left");
}
/// Its directory: segment, books.
fn directory(of: &Child) -> Option<std::path::PathBuf> {
    let own = format!("am-ledger-{}-", of.id());
    let mut all = std::fs::read_dir("/dev/shm").unwrap().filter_map(Result::ok);
    all.find(|entry| entry.file_name().to_string_lossy().starts_with(&own)).map(|entry| entry.path())
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let mut child = ledger(&["run", "shm"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("shm ")), "it has begun");
    let place = directory(&child).expect("its directory");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it goes on");
        sleep(Duration::from_millis(10));
    }
    assert!(!place.exists(), "{} is still there", place.display());
    let mut all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let line = |entry: &std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let name = place.to_string_lossy().into_owned();
    let left = all.find(|entry| String::from_utf8_lossy(&line(entry)).contains(&name));
    assert!(left.is_none(), "a process of it is still there: {left:?}");
}
