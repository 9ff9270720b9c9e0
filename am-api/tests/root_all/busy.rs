//! A server whose handler takes longer than its client's patience, over AF_XDP. Needs root.

use am_api::Node;
use am_netns::{Host, VethOptions, veth};

use crate::busy_server::loses_nothing;

#[test]
fn a_handler_that_sleeps_loses_nothing() {
    let make = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
    let (alpha, beta) = (make("alpha"), make("beta"));
    veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let open = |name: &str| Node::open(name, "xdp:am0").unwrap_or_else(|error| panic!("{error}"));
    // The threads stay on their hosts.
    let on = |host: &Host, name: &str| {
        nix::sched::setns(host, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        open(name)
    };
    loses_nothing(|| on(&beta, "beta"), |name, _| (name == "alpha").then(|| on(&alpha, name)));
}
