//! am-bench ordered between network namespaces on a bridge. Needs root.

use std::path::Path;

use crate::common::{check_groups, json, run};

#[test]
fn every_stack_carries_messages_of_a_group_on_one_bridge() {
    let asked = ["ordered", "--json", "--hosts", "veth", "--members", "3", "--size", "1K"];
    let lines = json(&run(&[&asked, &["--rounds", "1", "--time", "0.02"]]));
    let has_corosync = Path::new("/usr/sbin/corosync").exists() && Path::new("/usr/include/corosync/cpg.h").exists();
    let stacks = ["am", "agreed", "safe", "openraft", "agreed, host", "copies", "copies, host", "fetch", "corosync"];
    check_groups(&lines, 3, 1024, "xdp", &stacks[..if has_corosync { 9 } else { 8 }]);
}
