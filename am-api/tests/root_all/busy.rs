//! A server whose handler takes longer than its client's patience, over AF_XDP. Needs root.

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};

use crate::busy_server::loses_nothing;

#[test]
fn a_handler_that_sleeps_loses_nothing() {
    let make = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
    let hosts = ["alpha", "beta", "gamma"].map(make);
    let _switch =
        Bridge::new(&hosts.each_ref(), "am0", &BridgeOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let [alpha, beta, gamma] = &hosts;
    let open = |name: &str| Node::open(name, "xdp:am0").unwrap_or_else(|error| panic!("{error}"));
    // The threads stay on their hosts.
    let on = |host: &Host, name: &str| {
        nix::sched::setns(host, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        open(name)
    };
    loses_nothing(|| on(beta, "beta"), |name, _| Some(on(if name == "alpha" { alpha } else { gamma }, name)));
}
