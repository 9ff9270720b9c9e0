//! What a transport notes when it is opened is on the examples' standard error. Needs root.

use std::process::{Output, Stdio};

use crate::example::example;
use am_netns::{Host, VethOptions, veth};

/// A veth has no rules that steer to a queue.
#[test]
fn a_queue_that_no_rule_steers_to_is_said() {
    let [near, far] = ["near", "far"].map(|name| Host::new(name).unwrap());
    let options = VethOptions { queues: 2, ..VethOptions::default() };
    let _ends = veth(&near, "am0", &far, "am0", &options).unwrap();
    let on = "xdp:am0,queue=1";
    let run = || example("ping").args(["beta", on]).stdout(Stdio::null()).output().unwrap();
    let Output { stderr, .. } = near.enter(run).unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(said.contains("no rule steers to queue 1 of am0: its driver veth says"), "{said}");
}
