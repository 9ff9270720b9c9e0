//! `examples/ledger` over all transports, for some seconds each: servers and clients are killed, leave and are stopped, and
//! interfaces go down. What both sides noted agrees. Needs root.

mod example;

use example::example;
use serde_json::Value;

/// 16 hosts on a switch. The limit on the time is generous: they share the cores with other tests.
#[test]
fn members_are_known_and_messages_accounted_for_while_nodes_are_killed_and_added() {
    let mut ledger = example("ledger");
    ledger.args(["members", "--json", "--seconds", "20", "--within", "6000", "--pause", "1000"]);
    let output = ledger.output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    let line: Value = said.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a line of JSON");
    let count = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key}: {line}"));
    assert!(count("kills") >= 15 && count("replied") > 1000 && count("connections") > 200, "{line}");
    assert!(count("seen") > 100 && count("late") == 0 && count("wrong") == 0, "{said}");
}

#[test]
fn each_is_handled_once_or_comes_back_or_is_unknown_for_a_reason() {
    let mut ledger = example("ledger");
    ledger.args(["run", "--json", "--requests", "20000", "--faults", "6", "--pause", "250", "--silence", "400"]);
    let output = ledger.output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line["transport"].as_str()).collect();
    assert_eq!(names, ["xdp", "shm", "udp", "tcp", "amd", "shm+udp"], "{said}");
    for line in &lines {
        let count = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key}: {line}"));
        let faults = ["kills", "leaves", "stops", "flaps"]
            .map(|what| ["server", "client", "daemon"].map(|who| count(&format!("{who}_{what}"))).iter().sum::<u64>());
        assert!(faults.iter().sum::<u64>() >= 6 && count("connections") > 3, "{line}");
        assert!(count("replied") > 1000 && count("handled") >= count("replied"), "{line}");
        assert_eq!(count("wrong"), 0, "{said}");
    }
}

/// What was under way may be of unknown fate then: the books know of daemons.
#[test]
fn daemons_that_are_killed_and_stopped_explain_what_is_unknown() {
    let mut ledger = example("ledger");
    ledger.args([
        "run",
        "--json",
        "--requests",
        "20000",
        "--faults",
        "24",
        "--pause",
        "300",
        "--silence",
        "4000",
        "amd",
    ]);
    let output = ledger.output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    let line: Value = said.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a line of JSON");
    let count = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key}: {line}"));
    let faults = ["kills", "leaves", "stops", "flaps"].map(|what| count(&format!("daemon_{what}")));
    assert!(faults.iter().sum::<u64>() > 0 && count("replied") > 1000 && count("wrong") == 0, "{line}");
}
