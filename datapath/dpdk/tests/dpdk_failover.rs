//! Nodes with memif before UDP: an end of the memif is closed under load, and opened again. Needs DPDK.

use am_testing::{common, mortal};

mod ends;

use std::fs;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use crate::mortal::Pair;

/// Wait until the other end has given up its mapping, which DPDK 22.11 does on a thread of its own: who
/// moves frames at that moment may touch it.
fn is_unmapped() {
    let start = Instant::now();
    while fs::read_to_string("/proc/self/maps").unwrap().contains("memif_region") {
        assert!(start.elapsed() < crate::common::LONG, "the other end of the memif goes on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn memif_dies_and_udp_goes_on() {
    let _alone = crate::ends::alone();
    let dir = tempfile::tempdir().unwrap();
    let memif = |number: u32, role: &str| {
        let socket = dir.path().join("memif.sock");
        let there = format!("role={role},id=0,socket={},socket-abstract=no", socket.display());
        format!("dpdk:net_memif{number},{there},am.pages=normal,am.frames=8192")
    };
    let udp = || format!("udp:127.0.0.1:{},frame=1514", am_netns::free_port(Ipv4Addr::LOCALHOST));
    let (alpha, beta) = ([memif(0, "server"), udp()], [memif(1, "client"), udp()]);
    let mut pair = Pair::open([&alpha[0], &alpha[1]], [&beta[0], &beta[1]]);
    for end in [1, 0, 1, 0] {
        pair.dies_and_comes_back(end, Some(is_unmapped), ["it was closed", "the link is down"][end]);
    }
}
