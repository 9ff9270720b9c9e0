//! The example as two processes, on two hosts with a cable between them.

use crate::program::Program;
use am_netns::{Host, VethOptions, veth};

#[test]
fn the_example_runs_over_a_cable() {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let ping = Program::build("examples/ping.c");
    let serves = beta.enter(|| ping.start("", &["1", "xdp:am0"])).unwrap();
    let said = alpha.enter(|| ping.start("", &["0", "xdp:am0"])).unwrap().end();
    assert!(said.contains("1000 round trips of four words") && said.contains(" 0 bytes wrong"), "{said}");
    serves.end();
}
