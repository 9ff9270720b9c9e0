//! A far side of `--serve` outlives its interface and its clients. Needs root.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{ENDLESS, Machines, QUICK, Running, eventually, json, seconds_worked, text};
use nix::sys::signal::Signal;

/// Longer than the silence after which a side misses the other.
const LONGER_THAN_PATIENCE: Duration = Duration::from_secs(4);

/// By every driver, at the size that fills a frame of each. A client that asks too early asks again.
fn check_bandwidth(machines: &Machines, size: u64) {
    let mut output = None;
    eventually("a server that answers", || {
        let next = machines.measure(&[&["bandwidth", "--peer", "beta", "--framing", "bare", "--json"], QUICK]);
        let is_it = next.status.success();
        output = Some(next);
        is_it
    });
    let lines = json(&output.unwrap());
    let drivers: Vec<(&str, u64)> =
        lines.iter().filter_map(|line| Some((line["via"].as_str()?, line["size"].as_u64()?))).collect();
    assert_eq!(drivers, [("am", size), ("raw", size), ("udp", size)]);
}

const AT_1500: u64 = 1472;

/// The server is the same process as at the start, and has printed these.
fn check_end(far: Running, said: &[&str]) {
    far.signal(Signal::SIGTERM);
    let (status, errors) = far.end();
    assert_eq!(status.code(), Some(143), "{errors}");
    for words in said {
        assert!(errors.contains(words), "no `{words}` in {errors}");
    }
}

fn flap(machines: &Machines, end: usize, length: Duration) {
    machines.ends[end].set_down().unwrap();
    sleep(length);
    machines.ends[end].set_up().unwrap();
    machines.ends.iter().for_each(|end| end.wait_for_carrier().unwrap());
}

#[test]
fn a_link_that_goes_down_and_up_while_nobody_measures() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["--serve"]]);
    check_bandwidth(&machines, AT_1500);
    for end in [0, 1] {
        flap(&machines, end, LONGER_THAN_PATIENCE);
        check_bandwidth(&machines, AT_1500);
    }
    check_end(
        far,
        &["`ip link set dev eth1 up`", "beta waits until it can serve again", "beta serves on xdp:eth1 again"],
    );
}

#[test]
fn a_link_that_goes_down_and_up_in_the_middle() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["--serve"]]);
    for (end, driver) in [(0, "raw"), (1, "am")] {
        let near = machines.start(0, &[&["bandwidth", "--peer", "beta", "--driver", driver], ENDLESS]);
        eventually("work", || seconds_worked(near.pid()) > 0.5);
        flap(&machines, end, LONGER_THAN_PATIENCE);
        let (status, errors) = near.end();
        assert_eq!(status.code(), Some(1), "{end} {driver}: {errors}");
    }
    check_bandwidth(&machines, AT_1500);
    check_end(far, &["`ip link set dev eth1 up`", "beta serves on xdp:eth1 again"]);
}

/// As when a driver is unbound and bound again.
#[test]
fn an_interface_that_is_replaced_by_one_of_its_name() {
    let mut machines = Machines::new();
    let far = machines.start(1, &[&["--serve"]]);
    check_bandwidth(&machines, AT_1500);
    let remove = || Command::new("ip").args(["link", "del", "eth1"]).status().unwrap();
    assert!(machines.hosts[0].enter(remove).unwrap().success());
    machines.cable();
    check_bandwidth(&machines, AT_1500);
    check_end(far, &["beta serves on xdp:eth1 again"]);
}

#[test]
fn another_mtu() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["--serve"]]);
    check_bandwidth(&machines, AT_1500);
    for mtu in ["3000", "1400"] {
        for host in &machines.hosts {
            let command = || Command::new("ip").args(["link", "set", "eth1", "mtu", mtu]).output().unwrap();
            let output = host.enter(command).unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let mtu: u64 = mtu.parse().unwrap();
        check_bandwidth(&machines, mtu - 28);
    }
    check_end(far, &[]);
}

/// While it asks, opens, measures, or is between two drivers.
#[test]
fn clients_that_are_killed_whenever() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["--serve"]]);
    for millis in [30, 700] {
        let begin = Instant::now();
        let near = machines.start(0, &[&["latency", "--peer", "beta", "--rounds", "1000", "--time", "0.01"]]);
        sleep(Duration::from_millis(millis).saturating_sub(begin.elapsed()));
        near.signal(Signal::SIGKILL);
        near.end();
        check_bandwidth(&machines, AT_1500);
    }
    check_end(far, &[]);
}
