//! am-bench phases: every phase of every size is timed, between two threads.

use serde_json::Value;

use crate::common::{plotted, summary};

fn of<'a>(lines: &'a [Value], part: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["part"] == part).collect()
}

#[test]
fn every_phase_is_timed() {
    let (lines, svg) = plotted(&[&["phases", "--json", "--rounds", "1", "--hosts", "shm", "--size", "1,4096"]]);
    let messages = of(&lines, "message");
    assert_eq!(messages.iter().map(|line| line["size"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4096]);
    for line in messages {
        for (phase, cache, count) in [("send_ns", "warm", 400), ("send_ns", "cold", 20), ("receive_ns", "warm", 400)] {
            let samples = &line[phase][cache];
            assert_eq!(samples["n"], count, "{line}");
            assert!(samples["p50"].as_u64() > Some(0) && samples["p99"].as_u64() >= samples["p50"].as_u64(), "{line}");
        }
        assert!(line["transfer_ns"].is_number() && line["rtt_ns"]["p50"].as_u64() > Some(0), "{line}");
    }
    let copies = of(&lines, "copy");
    assert!(copies.len() == 33 && copies.iter().all(|line| line["bytes_per_s"]["p50"].as_f64() > Some(0.0)));
    let null = of(&lines, "call").into_iter().find(|line| line["over_getppid"] == 1.0).expect("a null system call");
    assert!(null["ns"]["p50"].as_f64() > Some(0.0), "{null}");
    assert!(
        summary(&lines)["evicting_bytes"].as_u64() > summary(&lines)["last_cache_bytes"].as_u64().map(|size| size / 2)
    );
    assert!(svg.ends_with("</svg>\n"));
}
