//! C programs over AF_XDP, on hosts with a cable between them.

use crate::LIBRARY;
use am_netns::{Host, VethOptions, veth};
use am_testing::lab::leave_each_number_alone;

#[test]
fn the_example_runs_over_a_cable() {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let ping = LIBRARY.build("examples/ping.c");
    let serves = beta.enter(|| ping.start("", &["1", "xdp:am0"])).unwrap();
    let said = alpha.enter(|| ping.start("", &["0", "xdp:am0"])).unwrap().end();
    assert!(said.contains("1000 round trips of four words") && said.contains(" 0 bytes wrong"), "{said}");
    serves.end();
}

/// The BPF loader and libxdp close theirs by number.
#[test]
fn a_file_with_any_of_the_librarys_numbers_is_left_alone() {
    leave_each_number_alone(&LIBRARY.build("tests/one_number.c"));
}
