//! The better of two transports dies in the middle of a flood: its socket, its
//! connection, its membership in a segment. All messages arrive once, over the other; then it is there again.

use std::net::Ipv4Addr;

use crate::mortal::Pair;

/// Sockets on loopback of their own for alpha and beta.
fn sockets(scheme: &str) -> [String; 2] {
    [0, 1].map(|_| {
        let port = am_netns::free_port(Ipv4Addr::LOCALHOST);
        format!("{scheme}:127.0.0.1:{port},frame=1514")
    })
}

fn segment() -> [String; 2] {
    let name = format!("shm:am-failover-{},frame=1514,members=4", std::process::id());
    [name.clone(), name]
}

/// At alpha's end and at beta's, twice; what alpha says of the first.
fn goes_on([first, first_there]: [String; 2], [second, second_there]: [String; 2], why: [&str; 2]) {
    let mut pair = Pair::open([&first, &second], [&first_there, &second_there]);
    for end in [0, 1, 0, 1] {
        pair.dies_and_comes_back(end, None, why[end]);
    }
}

#[test]
fn udp_dies_and_tcp_goes_on() {
    goes_on(sockets("udp"), sockets("tcp"), ["it was closed", "nothing arrived by it"]);
}

#[test]
fn tcp_dies_and_udp_goes_on() {
    goes_on(sockets("tcp"), sockets("udp"), ["it was closed", "no peer is connected"]);
}

#[test]
fn shared_memory_dies_and_udp_goes_on() {
    goes_on(segment(), sockets("udp"), ["it was closed", "nothing arrived by it"]);
}
