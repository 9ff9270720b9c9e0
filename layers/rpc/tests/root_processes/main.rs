//! Servers that are stopped, killed, started again and ended, over AF_XDP between two hosts. Needs root.

#[path = "../processes/cases.rs"]
mod cases;

use std::sync::Arc;

use am_netns::{Host, VethOptions, veth};
use cases::{Pair, killed_in_a_method, leaves, start, started_again, stopped};

const PLACE: &str = "xdp:am0";

fn over_xdp(case: fn(Pair), what: &'static str) {
    let [alpha, beta] = ["alpha", "beta"].map(|name| Arc::new(Host::new(name).unwrap()));
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let start = move |_: &str, notes: &std::path::Path| beta.enter(|| start(PLACE, notes)).unwrap();
    alpha.enter(|| case(Pair::over(PLACE, Box::new(start), what))).unwrap();
}

#[test]
fn stopped_over_xdp() {
    over_xdp(stopped, "stopped");
}

#[test]
fn killed_in_a_method_over_xdp() {
    over_xdp(killed_in_a_method, "killed");
}

#[test]
fn started_again_over_xdp() {
    over_xdp(started_again, "again");
}

#[test]
fn leaves_over_xdp() {
    over_xdp(leaves, "leaves");
}
