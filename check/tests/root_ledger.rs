//! The program `ledger` over all transports, for some seconds each: servers and clients are killed, leave and are stopped, and
//! interfaces go down. What both sides noted agrees. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The lines of JSON of a run, which finds nothing wrong.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_ledger")).args(arguments).output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["wrong"] == 0), "{said}");
    lines
}

fn count(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("no {key}: {line}"))
}

/// How often each fault struck one of these.
fn faults(line: &Value, who: &[&str]) -> u64 {
    let each = |what: &str| who.iter().map(|who| count(line, &format!("{who}_{what}"))).sum::<u64>();
    ["kills", "leaves", "stops", "flaps"].map(each).iter().sum()
}

/// 16 hosts on a switch. The limit on the time is generous: they share the cores with other tests.
#[test]
fn members_are_known_and_messages_accounted_for_while_nodes_are_killed_and_added() {
    let line = &lines(&["members", "--json", "--seconds", "20", "--within", "6000", "--pause", "1000"])[0];
    let [kills, replied, connections] = ["kills", "replied", "connections"].map(|key| count(line, key));
    assert!(kills >= 15 && replied > 1000 && connections > 200, "{line}");
    assert!(count(line, "seen") > 100 && count(line, "late") == 0, "{line}");
}

#[test]
fn each_is_handled_once_or_comes_back_or_is_unknown_for_a_reason() {
    let lines = lines(&["run", "--json", "--requests", "20000", "--faults", "6", "--pause", "250", "--silence", "400"]);
    let names: Vec<&str> = lines.iter().filter_map(|line| line["transport"].as_str()).collect();
    assert_eq!(names, ["xdp", "shm", "udp", "tcp", "amd", "shm+udp"]);
    for line in &lines {
        assert!(faults(line, &["server", "client", "daemon"]) >= 6 && count(line, "connections") > 3, "{line}");
        assert!(count(line, "replied") > 1000 && count(line, "handled") >= count(line, "replied"), "{line}");
    }
}

/// What was under way may be of unknown fate then: the books know of daemons.
#[test]
fn daemons_that_are_killed_and_stopped_explain_what_is_unknown() {
    let run = "run --json --requests 20000 --faults 24 --pause 300 --silence 4000 amd";
    let line = &lines(&run.split(' ').collect::<Vec<_>>())[0];
    assert!(faults(line, &["daemon"]) > 0 && count(line, "replied") > 1000, "{line}");
}

/// Remove the switch, which is in one of its network namespaces.
fn cut(ledger: &Child) {
    let files = std::fs::read_dir(format!("/proc/{}/fd", ledger.id())).unwrap().flatten().map(|file| file.path());
    let is_network = |file: &std::path::PathBuf| {
        std::fs::read_link(file).is_ok_and(|name| name.to_string_lossy().starts_with("net:["))
    };
    let removed = files.filter(is_network).filter(|file| {
        let mut ip = Command::new("nsenter");
        ip.arg(format!("--net={}", file.display())).args(["ip", "link", "del", "br0"]);
        ip.output().unwrap().status.success()
    });
    assert_eq!(removed.count(), 1, "a switch");
}

#[test]
fn a_network_that_is_gone_ends_the_run() {
    let mut ledger = Command::new(env!("CARGO_BIN_EXE_ledger"));
    ledger.args(["run", "--json", "--pause", "250", "--silence", "400", "--standstill", "5", "udp"]);
    let mut child = ledger.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("udp ")), "it has begun");
    cut(&child);
    assert!(lines.any(|line| line.unwrap().starts_with("ledger: udp: nothing moves")), "it says why it ends");
    let rest = std::thread::spawn(move || lines.count());
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line: Value = said.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a line of JSON");
    assert!(line["replied"].as_u64() > Some(0), "what there is is judged: {line}");
}
