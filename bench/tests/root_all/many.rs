//! The commands with many hosts, on a bridge. Needs root.

use crate::common::{eventually, json, run, start, summary};
use nix::sys::signal::Signal;

const SHORT: &[&str] = &["--rounds", "1", "--time", "0.05", "--json"];

#[test]
fn every_server_answers_its_clients_on_a_bridge() {
    let lines = json(&run(&[&["contention", "--clients", "1,4", "--size", "16"], SHORT]));
    let rows: Vec<_> = lines
        .iter()
        .filter(|line| line["messages_per_s"].is_u64())
        .map(|line| (line["server"].as_str().unwrap(), line["clients"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, ["one", "polled", "threads"].map(|server| [1, 4].map(|clients| (server, clients))).concat());
    for line in lines.iter().filter(|line| line["messages_per_s"].is_u64()) {
        assert!(line["messages_per_s"].as_u64() > Some(0) && line["rtt_ns"].as_f64() > Some(0.0), "{line}");
        assert!(line["mode"] == "veth copy, bridge" && line.get("simulated").is_none(), "{line}");
    }
    let floods = lines.iter().filter(|line| line["flood"].is_string()).count();
    assert_eq!(floods, 6, "{lines:?}");
    assert!(summary(&lines)["threads_over_polled"][0]["ratio"].as_f64() > Some(0.0), "{}", summary(&lines));
}

#[test]
fn permutations_on_a_bridge() {
    let lines = json(&run(&[&["permute", "--nodes", "4"], SHORT]));
    let patterns: Vec<_> = lines.iter().filter_map(|line| line["pattern"].as_str()).collect();
    assert_eq!(patterns, ["pair", "shift", "neighbor", "bisection"]);
    for line in &lines[..4] {
        assert!(line["bytes_per_s"].as_u64() > Some(0) && line["rtt_ns"].as_f64() > Some(0.0), "{line}");
    }
}

/// The namespaces are those of its threads, and end with them.
#[test]
fn an_interrupted_run_ends_with_what_it_measured() {
    let running = start(&[&["contention", "--clients", "1,2", "--server", "one", "--time", "600", "--rounds", "1"]]);
    let threads = || std::fs::read_dir(format!("/proc/{}/task", running.pid())).map_or(0, |tasks| tasks.count());
    let namespaces = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", running.pid())).into_iter().flatten().flatten();
        let links = tasks.filter_map(|task| std::fs::read_link(task.path().join("ns/net")).ok());
        links.collect::<std::collections::BTreeSet<_>>().len()
    };
    eventually("a server and a client on hosts of their own", || threads() > 2 && namespaces() > 2);
    running.signal(Signal::SIGINT);
    let (status, errors) = running.end();
    assert!(status.code() == Some(130) && errors.contains("interrupted"), "{status}: {errors}");
}
