//! am-bench rpc between two network namespaces. Needs root.

use crate::common::{check_calls, json, run};

#[test]
fn every_stack_is_called_over_a_cable() {
    let lines =
        json(&run(&[&["rpc", "--json", "--hosts", "veth", "--size", "64K", "--rounds", "1", "--time", "0.02"]]));
    check_calls(&lines, 64 << 10, "xdp");
}
