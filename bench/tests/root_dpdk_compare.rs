//! Our rows over DPDK, compared with others. Needs root, DPDK and the shim.

mod common;

use std::env::temp_dir;

use common::{ENDLESS, children, eventually, is_alive, json, peer, run, seconds_worked, start, summary};
use nix::sys::signal::Signal;
use serde_json::json as value;

#[test]
fn dpdk_rows_stand_beside_ours() {
    let arguments = ["--rounds", "2", "--time", "0.02", "--size", "64,4K", "--mtu", "9000"];
    let lines = json(&run(&[&["compare", "--json", "--peers", "am-dpdk,raw-dpdk,am-bundles"], &arguments]));
    assert_eq!(lines.len(), 10, "nine rows and a summary");
    for (name, wire, mode, sizes) in [
        ("am-dpdk-af_packet", "veth", "af_packet, ", 2),
        ("am-dpdk-memif", "memif", "memif, ", 2),
        ("am-dpdk-memif-bundles", "memif", "memif, ", 2),
        ("am-dpdk-virtio-user", "virtio-user", "vhost, ", 2),
        ("raw-dpdk-memif", "memif", "memif, ", 1),
        ("raw-dpdk-virtio-user", "virtio-user", "vhost, ", 1),
    ] {
        let line = peer(&lines, name);
        assert_eq!(
            (&line["failures"], &line["wire"], &line["mtu"]),
            (&value!([]), &wire.into(), &1500.into()),
            "{line}"
        );
        assert!(line["mode"].as_str().unwrap().starts_with(mode), "{line}");
        for curve in ["one_way", "stream"] {
            assert_eq!(line[curve].as_array().unwrap().len(), sizes, "{line}");
        }
        assert!(line["cpu_ns"]["median"].as_f64().unwrap() > 0.0, "of both processes: {line}");
    }
    assert_eq!(peer(&lines, "am-bundles")["failures"], value!([]), "what DPDK left is in nobody's way");
    assert_eq!(summary(&lines)["mtu"], 9000);
}

/// DPDK's own AF_XDP, if the cable's frames fit its memory; otherwise a row with the reason.
#[test]
fn dpdk_on_af_xdp() {
    for (mtu, works) in [("1500", true), ("65000", false)] {
        let arguments = ["--rounds", "1", "--time", "0.02", "--size", "64", "--mtu", mtu];
        let lines = json(&run(&[&["compare", "--json", "--peers", "am-dpdk-af_xdp,am-bundles"], &arguments]));
        let line = peer(&lines, "am-dpdk-af_xdp");
        assert_eq!(line["failures"] == value!([]), works, "{line}");
        assert_eq!(peer(&lines, "am-bundles")["failures"], value!([]), "nothing is left on the interface");
    }
}

#[test]
fn dpdk_leaves_no_process_and_no_file() {
    let sockets = |pid: u32| temp_dir().join(format!("am-bench-{pid}-0"));
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let running = start(&[&["compare", "--peers", "am-dpdk-memif"], ENDLESS]);
        let (mut near, mut far) = (0, 0);
        eventually("both sides at work", || {
            near = running.children().first().copied().unwrap_or(0);
            far = children(near).first().copied().unwrap_or(0);
            far != 0 && seconds_worked(near) > 1.0 && seconds_worked(far) > 1.0
        });
        assert!(sockets(near).is_dir());
        running.signal(signal);
        running.end();
        eventually("the end of both sides", || !is_alive(near) && !is_alive(far));
        assert!(!sockets(near).exists(), "{signal}");
    }
}
