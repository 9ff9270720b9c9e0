//! Nodes at link-local addresses of IPv6, which hold on one link only: the interface belongs to the address. Needs root.

use crate::ends::{FLOW, connect, counter, numbered, options, place, receive, receive_so_many, until};
use crate::hosts::{enter, hosts, ip_on, join};
use am_netns::{Host, VethOptions};
use am_sockets::{SocketOpenError, Tcp, Udp, tcp, udp};
use am_transport::{Transport, TransportExt};

const ADDRESSES: [&str; 2] = ["fe80::1", "fe80::2"];

/// Two hosts and a cable. The interfaces have different indices.
fn cable() -> [Host; 2] {
    let hosts = hosts();
    ip_on(&hosts[1], "link add am1 type veth peer name am2");
    join(&hosts, &VethOptions::default());
    hosts.iter().zip(ADDRESSES).for_each(|(host, at)| ip_on(host, &format!("addr add {at}/64 dev am0 nodad")));
    hosts
}

fn open<T>(host: &Host, open: impl Fn(&str) -> Result<T, SocketOpenError>, address: &str) -> T {
    enter(host);
    open(address).unwrap_or_else(|error| panic!("{address}: {error}"))
}

fn open_tcp(host: &Host, address: &str) -> Tcp {
    let mut end = open(host, |at| tcp::open(&options(&format!("tcp:[{at}%am0]:0"))), address);
    end.steer(FLOW, true);
    end
}

fn open_udp(host: &Host, address: &str) -> Udp {
    open(host, |at| udp::open(&options(&format!("udp:[{at}%am0]:0"))), address)
}

fn port(end: &dyn Transport) -> String {
    place(end).rsplit_once(':').unwrap().1.to_owned()
}

#[test]
fn tcp_connects_in_one_direction_or_both_and_once() {
    let hosts = cable();
    for introduced in [1, 2] {
        let mut ends = [0, 1].map(|end| open_tcp(&hosts[end], ADDRESSES[end]));
        let ports = [port(&ends[0]), port(&ends[1])];
        for (end, host) in hosts.iter().enumerate().take(introduced) {
            enter(host);
            ends[end].add_peer(&format!("[{}%am0]:{}", ADDRESSES[1 - end], ports[1 - end])).unwrap();
        }
        connect(&mut ends);
        let to = ends[1].caps().address;
        let frame = numbered(&ends[0], to, 3, 100);
        assert!(ends[0].send(to, &frame), "room");
        ends[0].flush();
        assert_eq!(receive_so_many(&mut ends[1], 1), [3]);
        until("one connection is left", || {
            ends.iter_mut().for_each(|end| drop(receive(end)));
            ends.iter().all(|end| counter(end, "tcp_connections") == 1)
        });
        // The peer's address, in the form that was added.
        enter(&hosts[0]);
        let known = ends[0].peer(to).address.unwrap();
        ends[0].remove_peer(&format!("tcp:[{}%am0]:{}", ADDRESSES[1], ports[1])).unwrap();
        assert!(known.contains(&format!("{}%", ADDRESSES[1])) && counter(&ends[0], "tcp_peers") == 0, "{known}");
    }
}

#[test]
fn a_socket_at_a_link_local_address_knows_the_link() {
    let hosts = cable();
    let mut far = open_udp(&hosts[1], ADDRESSES[1]);
    let mut near = open_udp(&hosts[0], ADDRESSES[0]);
    near.add_peer(&format!("[{}]:{}", ADDRESSES[1], port(&far))).unwrap();
    let beacon = numbered(&near, am_wire::Address::BROADCAST, 7, 100);
    assert!(near.send(am_wire::Address::BROADCAST, &beacon), "room");
    near.flush();
    assert_eq!(receive_so_many(&mut far, 1), [7]);
    // The index of the far host's interface is another here.
    let error = near.add_peer(&place(&far)).unwrap_err().to_string();
    assert!(error.contains("there is no interface with the index"), "{error}");
    let error = near.add_peer(&format!("[{}%lo]:7000", ADDRESSES[1])).unwrap_err().to_string();
    assert!(error.contains("on the link of lo") && error.contains("on that of am0"), "{error}");
}

/// Two interfaces may have one link-local address. Their MTUs differ.
#[test]
fn the_longest_frame_is_that_of_the_interface_in_the_name() {
    let hosts = cable();
    for words in ["link set am1 mtu 1300 up", "link set am2 up", "addr add fe80::77/64 dev am1 nodad"] {
        ip_on(&hosts[1], words);
    }
    ip_on(&hosts[1], "addr add fe80::77/64 dev am0 nodad");
    enter(&hosts[1]);
    for (interface, mtu) in [("am0", 1500), ("am1", 1300)] {
        let end = udp::open(&options(&format!("udp:[fe80::77%{interface}]:0"))).unwrap();
        assert_eq!(end.caps().max_frame, mtu - 48, "{interface}");
    }
}
