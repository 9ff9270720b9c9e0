//! Two hosts, a cable between them, and what is done to their interfaces.

use std::process::Command;

use am_netns::{Host, VethOptions, veth};
use nix::sched::{CloneFlags, setns};

/// The hosts at the ends of a cable.
pub(crate) const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Hosts without interfaces.
pub(crate) fn hosts() -> [Host; 2] {
    ["near", "far"].map(|name| Host::new(name).unwrap_or_else(|error| panic!("{error}")))
}

/// The interface `am0` of one host is joined to that of the other.
pub(crate) fn join([near, far]: &[Host; 2], options: &VethOptions) {
    veth(near, "am0", far, "am0", options).unwrap_or_else(|error| panic!("{error}"));
}

/// Two hosts and a cable of MTU 1500 between them.
pub(crate) fn cable() -> [Host; 2] {
    let hosts = hosts();
    let addresses = Some(("10.77.0.1/24", "10.77.0.2/24"));
    join(&hosts, &VethOptions { addresses, ..VethOptions::default() });
    hosts
}

/// This thread is on that host from then on.
pub(crate) fn enter(host: &Host) {
    setns(host, CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
}

/// Run `ip` on the host of this thread.
pub(crate) fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.unwrap().success(), "ip {words}");
}

/// Run `ip` on that host.
pub(crate) fn ip_on(host: &Host, words: &str) {
    host.enter(|| ip(words)).unwrap();
}
