//! Two machines with unusual interfaces. Needs root.

use std::process::Command;

use crate::common::{Machines, QUICK, check_throughput, json, run, start, text};
use am_netns::{Host, VethOptions, veth};
use am_wire::Framing;

const ADDRESSES: (&str, &str) = ("10.78.0.1/24", "10.78.0.2/24");

/// As `--hosts veth` refuses it: the bare rows write a frame in one piece.
#[test]
fn an_mtu_that_ablation_cannot_measure_is_refused_with_one_that_it_can() {
    let machines = Machines::with(&VethOptions { mtu: 9000, addresses: Some(ADDRESSES), ..VethOptions::default() });
    let far = machines.start(1, &[&["--serve"]]);
    let output = machines.measure(&[&["ablation", "--peer", "beta", "--rounds", "1", "--time", "0.005"]]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("MTU of eth1 is 9000") && said.contains("`ip link set dev eth1 mtu 3826`"), "{said}");
    // The server has not been asked yet; drivers with frames in several pieces work.
    let lines = json(&machines.measure(&[&["bandwidth", "--peer", "beta", "--driver", "am,raw", "--json"], QUICK]));
    // Room is left for the cost of a framing that is not known yet.
    assert_eq!(lines[0]["size"], 9000 - Framing::Plain.cost());
    drop(far);
}

/// A new network namespace has no address before its `lo` is up.
#[test]
fn kernel_udp_needs_no_loopback_interface() {
    let machines = Machines::new();
    for host in &machines.hosts {
        host.interface("lo").unwrap().set_down().unwrap();
        let flushed = host.enter(|| Command::new("ip").args(["address", "flush", "dev", "lo"]).status());
        assert!(flushed.unwrap().unwrap().success());
    }
    let _far = machines.start(1, &[&["--serve"]]);
    let lines = json(&machines.measure(&[&["latency", "--peer", "beta", "--driver", "udp", "--json"], QUICK]));
    assert_eq!(lines[0]["via"], "udp");
}

/// Linux allows any interface name without `/`, `:` and spaces.
#[test]
fn interfaces_with_signs_in_their_names() {
    let names = ["e+1,2", "udp+,"];
    let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
    let _ends = veth(&hosts[0], names[0], &hosts[1], names[1], &VethOptions::default()).unwrap();
    let [near, far] = names.map(|name| format!("xdp:{name}"));
    let serves = hosts[1].enter(|| start(&[&["--serve", "--name", "beta", "--on", &far]])).unwrap();
    let line = ["latency", "--peer", "beta", "--name", "alpha", "--driver", "am,raw", "--json", "--on", &near];
    let lines = json(&hosts[0].enter(|| run(&[&line, QUICK])).unwrap());
    assert_eq!((&lines[0]["via"], &lines[1]["via"]), (&"am".into(), &"raw".into()));
    drop(serves);

    let [near, far] = [near, far].map(|name| format!("{name}+shm:am-bench-test-{}", std::process::id()));
    let serves = hosts[1].enter(|| start(&[&["--serve", "--name", "beta", "--on", &far]])).unwrap();
    let line = ["latency", "--peer", "beta", "--name", "alpha", "--json", "--on", &near];
    let lines = json(&hosts[0].enter(|| run(&[&line, QUICK])).unwrap());
    assert_eq!(lines[0]["via"], "am");
    drop(serves);
}

/// Both sides use frames that both carry.
#[test]
fn frames_are_as_large_as_both_sides_carry() {
    for mtus in [["3000", "1500"], ["1500", "3000"]] {
        let machines = Machines::new();
        for (host, mtu) in machines.hosts.iter().zip(mtus) {
            let set = || Command::new("ip").args(["link", "set", "dev", "eth1", "mtu", mtu]).status().unwrap();
            assert!(host.enter(set).unwrap().success());
        }
        let _far = machines.start(1, &[&["serve"]]);
        let lines = json(&machines.measure(&[&["bandwidth", "--peer", "beta", "--json"], QUICK]));
        for (line, driver) in lines.iter().zip(["am", "raw", "udp"]) {
            check_throughput(line, "bandwidth", driver, 1472);
        }
    }
}
