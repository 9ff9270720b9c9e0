//! am-bench between two processes that a DPDK device joins. Needs DPDK and the shim, but no rights.

mod common;

use common::{QUICK, check_every_command, check_latency, check_throughput, end_each_side, json, run, summary};
use nix::sys::signal::Signal;

const DEVICES: [(&str, &str); 2] = [("memif", "memif, "), ("virtio-user", "vhost, ")];

#[test]
fn dpdk_latency_beside_bare_frames() {
    for (hosts, prefix) in DEVICES {
        let lines = json(&run(&[&["latency", "--json", "--hosts", hosts, "--rounds", "3", "--time", "0.02"]]));
        for (line, (driver, framing)) in lines.iter().zip([("am", "bare"), ("raw", "none")]) {
            let mode = line["mode"].as_str().unwrap();
            assert!(mode.starts_with(prefix), "{mode}");
            check_latency(line, driver, mode, framing, 16);
        }
        assert!(summary(&lines)["am_over_raw"].as_f64().unwrap() > 0.0, "{hosts}");
    }
}

#[test]
fn dpdk_rate_and_full_frames() {
    for (hosts, _) in DEVICES {
        for (bench, size) in [("rate", 64), ("bandwidth", 1500)] {
            let lines = json(&run(&[&[bench, "--json", "--hosts", hosts], QUICK]));
            check_throughput(&lines[0], bench, "am", size);
            check_throughput(&lines[1], bench, "raw", size);
        }
    }
}

/// The error names the reason, as for any other device.
#[test]
fn dpdk_frames_as_short_and_as_long_as_they_can_be() {
    for (hosts, mtu) in [("memif", "148"), ("virtio-user", "148"), ("virtio-user", "9000")] {
        let lines = json(&run(&[&["bandwidth", "--json", "--hosts", hosts, "--mtu", mtu], QUICK]));
        for (line, driver) in lines.iter().zip(["am", "raw"]) {
            check_throughput(line, "bandwidth", driver, mtu.parse().unwrap());
        }
    }
}

const ROWS: [&str; 7] = ["baseline", "streamed", "all_dma", "hybrid", "buffers", "interpreted", "whole"];

#[test]
fn dpdk_every_command_goes_over_memif() {
    check_every_command("memif", &ROWS);
}

#[test]
fn dpdk_every_command_goes_over_virtio_user() {
    check_every_command("virtio-user", &ROWS);
}
/// Neither a process nor a file is left, whichever side ends in whatever way.
#[test]
fn dpdk_leaves_nothing() {
    for (hosts, driver) in [("memif", "am"), ("virtio-user", "raw")] {
        let files = |pid: u32| std::env::temp_dir().join(format!("am-bench-{pid}-0"));
        let after = |pid: u32, signal: Signal| {
            if hosts == "memif" && signal == Signal::SIGKILL && files(pid).exists() {
                // memif's driver may kill a side that moves frames when the other ends. The next run removes its files.
                json(&run(&[&["latency", "--json", "--hosts", hosts], QUICK]));
            }
            assert!(!files(pid).exists(), "{hosts} by {driver}: {}", files(pid).display());
        };
        end_each_side(hosts, driver, |pid| assert!(files(pid).is_dir()), after);
    }
}
