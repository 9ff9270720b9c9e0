//! `verify`, with which scripts/lab judges kernels and drivers: it finds what is wrong, and only that.

use std::process::{self, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use am_testing::example::{Running, local};

fn verify(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verify"));
    command.args(arguments).stdout(Stdio::piped());
    command
}

/// How it ended, and what the side that asks said last.
fn said(output: Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().rfind(|line| !line.contains(r#""phase":"served""#));
    (output.status.code(), line.unwrap_or_default().to_owned())
}

fn number(line: &str, name: &str) -> u64 {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line[name].as_u64().unwrap_or_else(|| panic!("no {name}: {line}"))
}

#[test]
fn all_is_good_also_where_frames_are_lost() {
    let shm = |name: &str| format!("shm:{name}-{}", process::id());
    for (on, loss) in [(shm("verified"), "loss=0"), ("sim:7,loss=0.01".into(), "loss=0"), (shm("lossy"), "loss=1")] {
        let (code, line) = said(verify(&["both", &on, "step=64", loss]).output().unwrap());
        assert!(code == Some(0) && line.contains("\"good\":true"), "{on}: {line}");
        assert!(number(&line, "sent") > 1000 && number(&line, "bytes") > 1_000_000, "{line}");
        assert_eq!((number(&line, "wrong"), number(&line, "missing")), (0, 0), "{line}");
    }
}

#[test]
fn without_a_peer_it_says_so() {
    let asked = ["check", "udp:127.0.0.1:0", "seconds=2"];
    let (code, line) = said(verify(&asked).output().unwrap());
    assert!(code == Some(2) && line.contains("\"error\":"), "{line}");
    let (code, line) = said(verify(&["keep", "udp:127.0.0.1:0", "second=2"]).output().unwrap());
    assert!(code == Some(2) && line.contains("Usage: verify"), "{line}");
}

#[test]
fn it_goes_on_with_a_server_that_was_killed_and_is_back() {
    let (near, far) = (local(1), local(2));
    let serve = || Running(verify(&["serve", &format!("udp:{far}"), "seconds=60"]).spawn().unwrap());
    let serving = serve();
    let asking = format!("udp:{near},peer={far}");
    let asking = verify(&["keep", &asking, "seconds=6", "patience=1"]).spawn().unwrap();
    sleep(Duration::from_secs(2));
    drop(serving);
    sleep(Duration::from_secs(1));
    let _serving = serve();
    let (code, line) = said(asking.wait_with_output().unwrap());
    assert!(code == Some(0) && number(&line, "reconnects") > 0 && number(&line, "wrong") == 0, "{line}");
    assert!(number(&line, "sent") == number(&line, "received") + number(&line, "missing"), "{line}");
}

#[test]
fn a_server_that_is_gone_for_good_is_a_failure() {
    let (near, far) = (local(3), local(4));
    let serving = Running(verify(&["serve", &format!("udp:{far}"), "seconds=60"]).spawn().unwrap());
    let asking = format!("udp:{near},peer={far}");
    let asking = verify(&["keep", &asking, "seconds=5", "patience=1"]).spawn().unwrap();
    sleep(Duration::from_secs(1));
    drop(serving);
    let (code, line) = said(asking.wait_with_output().unwrap());
    assert!(code == Some(1) && line.contains("\"good\":false"), "{line}");
}

#[test]
fn a_result_that_could_not_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = verify(&["both", "sim:1", "step=400"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("verify: standard output: No space"), "{said}");
}

/// As by `verify ... | head -1`.
#[test]
fn a_reader_that_went_away_is_no_panic() {
    let mut child = verify(&["serve", "sim:9", "seconds=1"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!((status.code(), String::from_utf8_lossy(&stderr).into_owned()), (Some(2), String::new()));
}
