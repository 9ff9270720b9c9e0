//! am-bench between two processes that a transport joins. Needs no rights.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use crate::common::{
    QUICK, check_every_command, check_latency, check_throughput, end_each_side, json, run, start, summary, text,
};

#[test]
fn latency_beside_what_is_below() {
    for (hosts, beside, ratio) in
        [("udp", "raw", "am_over_raw"), ("tcp", "raw", "am_over_raw"), ("shm", "cacheline", "am_over_cacheline")]
    {
        let lines = json(&run(&[&["latency", "--json", "--hosts", hosts, "--rounds", "2", "--time", "0.02"]]));
        for (line, (driver, framing)) in lines.iter().zip([("am", "bare"), (beside, "none")]) {
            check_latency(line, driver, line["mode"].as_str().unwrap(), framing, 16);
        }
        assert!(summary(&lines)[ratio].as_f64().expect(ratio) > 0.0, "{hosts}");
    }
}

#[test]
fn rate_of_small_frames() {
    for (hosts, drivers) in [("udp", &["am", "raw"][..]), ("tcp", &["am", "raw"]), ("shm", &["am"])] {
        let lines = json(&run(&[&["rate", "--json", "--hosts", hosts], QUICK]));
        assert_eq!(lines.len(), drivers.len() + 1, "{hosts}");
        for (line, driver) in lines.iter().zip(drivers) {
            check_throughput(line, "rate", driver, 64);
        }
    }
}

#[test]
fn every_command_goes_over_udp() {
    check_every_command("udp", &["buffers", "interpreted", "whole", "udp"]);
}

#[test]
fn every_command_goes_over_tcp() {
    check_every_command("tcp", &["buffers", "interpreted", "whole", "tcp"]);
}

#[test]
fn every_command_goes_over_shared_memory() {
    check_every_command("shm", &["buffers", "interpreted", "whole"]);
}
/// Both sides find it.
#[test]
fn what_no_side_can_open_is_said_once() {
    let said = text(&run(&[&["rate", "--hosts", "shm", "--driver", "raw"]]).stderr);
    assert_eq!(said, "am-bench: there is no --driver raw over shm: omit it\n");
}

/// The files of a near side in /dev/shm.
fn left(pid: u32) -> usize {
    let mine = |name: String| name.contains(&format!("am-bench-{pid}"));
    fs::read_dir("/dev/shm").unwrap().flatten().filter(|file| mine(file.file_name().to_string_lossy().into())).count()
}

#[test]
fn nothing_is_left_whichever_side_is_killed() {
    for (hosts, driver) in [("udp", "am"), ("shm", "am"), ("shm", "cacheline")] {
        end_each_side(hosts, driver, |_| (), |pid, _| assert_eq!(left(pid), 0, "{hosts} by {driver}"));
    }
}

#[test]
fn a_peer_that_is_not_there_is_waited_for_aloud() {
    let on = format!("shm:am-bench-nobody-{}", std::process::id());
    let begin = Instant::now();
    let mut near = start(&[&["latency", "--peer", "gamma", "--on", &on, "--name", "alpha"]]);
    let mut errors = BufReader::new(near.0.stderr.take().unwrap()).lines();
    assert_eq!(errors.next().unwrap().unwrap(), format!("am-bench: waiting for gamma on {on}, 10 s at most"));
    assert!(begin.elapsed() < Duration::from_secs(5), "long before it gives up");
    assert!(errors.next().unwrap().unwrap().contains("no peer gamma answered"));
    assert_eq!(near.end().0.code(), Some(1));
}
