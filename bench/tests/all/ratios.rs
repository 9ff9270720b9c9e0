//! Ratios exist only for equal messages in equal batches. Needs no rights.

use crate::common::{QUICK, json, run, start, summary, text};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The sizes and batching in the two lines.
fn messages(lines: &[Value]) -> [(u64, &str); 2] {
    [&lines[0], &lines[1]].map(|line| (line["size"].as_u64().unwrap(), line["batching"].as_str().unwrap()))
}

/// A frame of a bare socket holds less than one of ours.
#[test]
fn full_frames_are_as_long_on_both_sides() {
    for (hosts, size) in [("udp", 8972), ("tcp", 64_934)] {
        for (bench, size, batching) in
            [("bandwidth", size, "bursts"), ("rate", 64, "bursts"), ("latency", 16, "single")]
        {
            let lines = json(&run(&[&[bench, "--json", "--hosts", hosts], QUICK]));
            assert_eq!(messages(&lines), [(size, batching); 2], "{bench} over {hosts}");
            assert!(summary(&lines)["am_over_raw"].is_f64(), "{bench} over {hosts}");
        }
    }
}

/// With the default length of a frame, ours are longer than those of the bare socket.
#[test]
fn between_machines_they_are_too() {
    for (kind, size) in [("tcp", 64_934), ("udp", 1472)] {
        let [near, far] = ["127.78.1.1", "127.78.1.2"].map(|ip| format!("{kind}:{ip}:7000"));
        let on = format!("{near},peer={}", &far[4..]);
        let server = start(&[&["--serve", "--name", "beta", "--on", &far]]);
        let lines = json(&run(&[&["bandwidth", "--peer", "beta", "--name", "alpha", "--on", &on, "--json"], QUICK]));
        server.signal(Signal::SIGINT);
        server.end();
        assert_eq!(messages(&lines), [(size, "bursts"); 2], "{kind}");
        assert!(summary(&lines)["am_over_raw"].is_f64() && lines[0]["transport"] == kind, "{kind}");
    }
}

#[test]
fn transfers_stand_beside_as_many_bytes() {
    for (hosts, size) in [("udp", 1 << 20), ("tcp", 16 << 20)] {
        let lines =
            json(&run(&[&["bandwidth", "--bulk", "--size", &size.to_string(), "--json", "--hosts", hosts], QUICK]));
        assert_eq!(messages(&lines), [(size, "bursts"); 2], "{hosts}");
    }
}

/// A stream has no frames, so one write of many messages is comparable.
#[test]
fn messages_that_share_frames_have_a_ratio_to_a_stream_alone() {
    for (hosts, batching, fair) in [
        ("tcp", ["shared", "shared"], true),
        ("udp", ["shared", "bursts"], false),
        ("loopback", ["shared", "bursts"], false),
    ] {
        let arguments = ["rate", "--coalesce", "on", "--size", "16", "--hosts", hosts];
        let lines = json(&run(&[&arguments, &["--json"], QUICK]));
        assert_eq!(messages(&lines).map(|(_, batching)| batching), batching, "{hosts}");
        assert_eq!(summary(&lines)["am_over_raw"].is_f64(), fair, "{hosts}");
        let table = text(&run(&[&arguments, QUICK]).stdout);
        let none = "  no ratio of am to raw: several messages a frame, compared with one message a frame, in bursts\n";
        assert_eq!(table.contains(none), !fair, "{table}");
        assert_eq!(table.contains("am moves"), fair, "{table}");
    }
}
