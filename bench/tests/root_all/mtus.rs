//! am-bench between two interfaces with different MTUs. Needs root.

use std::process::Command;

use crate::common::{Machines, QUICK, check_throughput, json};

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
