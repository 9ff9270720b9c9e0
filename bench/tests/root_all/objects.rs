//! am-bench objects between network namespaces on a bridge. Needs root.

use crate::common::{check_objects, has_redis, json, run};

#[test]
fn objects_on_one_bridge_are_beside_a_bare_group_and_peers() {
    let asked = ["objects", "--json", "--hosts", "veth", "--members", "3", "--rounds", "1", "--time", "0.02"];
    check_objects(&json(&run(&[&asked])), 3, "xdp", 1, has_redis());
}
