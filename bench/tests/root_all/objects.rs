//! am-bench objects between network namespaces on a bridge. Needs root.

use crate::common::{check_objects, json, run};

#[test]
fn objects_on_one_bridge_are_beside_the_messages_of_a_bare_group() {
    let asked = ["objects", "--json", "--hosts", "veth", "--members", "3", "--rounds", "1", "--time", "0.02"];
    check_objects(&json(&run(&[&asked])), 3, "xdp", 1);
}
