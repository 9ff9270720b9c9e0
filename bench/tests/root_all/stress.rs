//! The stress test over a veth pair: losses, stalls, stopped processes. Needs root.

use crate::common::{Running, eventually, json, run, start, summary};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn a_million_messages_each_once_as_it_was_sent() {
    let lines = json(&run(&[&["stress", "--messages", "1e6", "--json"]]));
    let summary = summary(&lines);
    for wrong in ["lost", "twice", "wrong", "returned", "puts_in_doubt", "bytes_short"] {
        assert_eq!(summary[wrong], 0, "{wrong}: {summary}");
    }
    assert_eq!(summary["arrived"], 1_000_000, "{summary}");
    assert!(summary["bytes"].as_u64() >= Some(1_073_000_000), "{summary}");
    let happened = |counter: &str| ["sender", "receiver"].map(|side| summary[side][counter].as_u64().unwrap_or(0));
    assert!(happened("xdp_lost_on_purpose").iter().all(|&count| count > 0), "{summary}");
    assert!(happened("bundled_sent").iter().all(|&count| count > 0), "{summary}");
    for counter in ["stalls", "puts"] {
        assert!(summary[counter].as_u64() > Some(0), "{counter}: {summary}");
    }
    let stops: Vec<u64> = summary["stops"].as_array().unwrap().iter().filter_map(|stops| stops.as_u64()).collect();
    assert!(stops.len() == 2 && stops.iter().all(|&stops| stops > 0), "{summary}");
}

/// Without faults nothing is lost, stalled or stopped.
#[test]
fn a_calm_run() {
    let calm = &["--loss", "0", "--stalls", "off", "--stops", "off", "--coalesce", "off"];
    let lines = json(&run(&[&["stress", "--messages", "1e5", "--bytes", "20MiB", "--json"], calm]));
    let summary = summary(&lines);
    assert_eq!((&summary["lost"], &summary["stalls"], &summary["stops"]), (&0.into(), &0.into(), &[0, 0][..].into()));
    for side in ["sender", "receiver"] {
        let counters = &summary[side];
        assert_eq!((&counters["xdp_lost_on_purpose"], &counters["bundles_sent"]), (&0.into(), &0.into()), "{summary}");
    }
    assert!(summary["bytes"].as_u64() < Some(21 << 20), "{summary}");
}

fn children(running: &Running) -> Vec<u32> {
    let mut children = Vec::new();
    eventually("two processes", || {
        children = running.children();
        children.len() == 2
    });
    children
}

#[test]
fn a_process_that_is_killed_is_missed() {
    for at in 0..2 {
        let running = start(&[&["stress", "--messages", "1e8"]]);
        let children = children(&running);
        kill(Pid::from_raw(children[at] as i32), Signal::SIGKILL).unwrap();
        let (status, errors) = running.end();
        assert_eq!(status.code(), Some(1), "{errors}");
        assert!(errors.contains("ended"), "{errors}");
        assert!(children.iter().all(|&child| !crate::common::is_alive(child)));
    }
}

#[test]
fn ctrl_c_ends_it() {
    let running = start(&[&["stress", "--messages", "1e8"]]);
    let children = children(&running);
    running.signal(Signal::SIGINT);
    let (status, errors) = running.end();
    assert_eq!((status.code(), errors.as_str()), (Some(130), "am-bench: interrupted\n"));
    assert!(children.iter().all(|&child| !crate::common::is_alive(child)));
}
