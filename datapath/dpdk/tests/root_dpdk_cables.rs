//! DPDK's drivers for interfaces of the kernel, over a cable between two hosts. Needs DPDK and root.

mod ends;

use allocation_counter::measure;
use am_dpdk::{Dpdk, DpdkOpenError};
use am_netns::{Host, VethOptions, veth};
use am_transport::Transport;
use am_transport::conformance::{self, Pair};
use ends::{alone, open};
use nix::sched::{CloneFlags, setns};

/// Two hosts and the cable between them, its ends both called `am0`.
struct Cable {
    hosts: [Host; 2],
    _ends: [am_netns::Interface; 2],
}

impl Cable {
    fn new() -> Cable {
        let host = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
        let hosts = [host("near"), host("far")];
        let ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default());
        let (near, far) = ends.unwrap_or_else(|error| panic!("{error}"));
        Cable { hosts, _ends: [near, far] }
    }

    /// Run on this thread, which is on that end's host from then on.
    fn at<T>(&self, end: usize, run: impl FnOnce() -> T) -> T {
        setns(&self.hosts[end], CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        run()
    }

    fn open(&self, end: usize, device: &str) -> Result<Dpdk, DpdkOpenError> {
        self.at(end, || open(&format!("{device}{end},iface=am0,am.pages=normal")))
    }
}

fn passes<T: Transport + 'static>(near: &str, far: impl Fn(&Cable) -> T) {
    let over_a_cable = || {
        let cable = Cable::new();
        let near = cable.open(0, near).unwrap_or_else(|error| panic!("{error}"));
        let far = far(&cable);
        Pair::new(near, far).keeping(cable)
    };
    let report = conformance::run(over_a_cable, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn af_packet_passes() {
    let _alone = alone();
    passes("net_af_packet", |cable| cable.open(1, "net_af_packet").unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn af_xdp_passes() {
    let _alone = alone();
    passes("net_af_xdp", |cable| cable.open(1, "net_af_xdp").unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn af_packet_and_our_own_af_xdp_pass() {
    let _alone = alone();
    let ours = |cable: &Cable| cable.at(1, || am_afxdp::open(&am_afxdp::XdpOptions::new("am0")).unwrap());
    passes("net_af_packet", ours);
}
