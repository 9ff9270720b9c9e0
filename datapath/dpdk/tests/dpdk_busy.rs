//! A server whose handler takes longer than its client's patience, over memif. Needs DPDK.

use am_testing::busy_server;

mod ends;

use am_api::Node;

#[test]
fn a_handler_that_sleeps_loses_nothing_over_memif() {
    let _alone = crate::ends::alone();
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, number: u32, role: &str| {
        let socket = dir.path().join("memif.sock");
        let there = format!("role={role},id=0,socket={},socket-abstract=no", socket.display());
        let on = format!("dpdk:net_memif{number},{there},am.pages=normal,am.frames=8192");
        Node::open(name, &on).unwrap_or_else(|error| panic!("{error}"))
    };
    busy_server::loses_nothing(
        || open("beta", 0, "server"),
        |name, _| (name == "alpha").then(|| open("alpha", 1, "client")),
    );
}
