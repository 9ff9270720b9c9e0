//! The kernel refuses what a socket sends, or takes its address away. The transport says so as long as it lasts, and works
//! when it is over. Needs root.

use crate::ends::{counter, numbered, options, receive, until};
use crate::hosts::{ADDRESSES, enter, ip, ip_on};
use am_netns::Host;
use am_sockets::{tcp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::Address;

/// Two hosts and a cable; this thread is on the first.
fn cable() -> [Host; 2] {
    let hosts = crate::hosts::cable();
    enter(&hosts[0]);
    hosts
}

fn shout(end: &mut dyn Transport) {
    let beacon = numbered(end, Address::BROADCAST, 7, 100);
    assert!(end.send(Address::BROADCAST, &beacon), "room");
    end.flush();
}

/// The obstacle is put up and taken away. The transport sends once before, and not again until it says that all is well.
fn says_so_as_long_as_it_lasts(up: &[&str], down: &[&str], parts: &[&str]) {
    let hosts = cable();
    let near = format!("udp:{}:0,peer={}:7000", ADDRESSES[0], ADDRESSES[1]);
    let [mut far, mut near] =
        [(&hosts[1], format!("udp:{}:7000", ADDRESSES[1])), (&hosts[0], near)].map(|(host, name)| {
            enter(host);
            udp::open(&options(&name)).unwrap()
        });
    shout(&mut near);
    until("the first one arrives", || !receive(&mut far).is_empty());
    assert_eq!(near.link_error(), None);
    up.iter().copied().for_each(ip);
    shout(&mut near);
    until("it is noticed, and named", || {
        near.link_error().is_some_and(|error| parts.iter().all(|part| error.contains(part)))
    });
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(150));
        assert!(near.link_error().is_some(), "it lasts");
    }
    down.iter().copied().for_each(ip);
    until("all is well", || near.link_error().is_none());
    until("another arrives", || {
        shout(&mut near);
        !receive(&mut far).is_empty()
    });
    assert_eq!(near.link_error(), None);
}

#[test]
fn a_route_that_prohibits() {
    let parts = ["10.77.0.2:7000: Permission denied", "`ip route get 10.77.0.2`"];
    says_so_as_long_as_it_lasts(&["route add prohibit 10.77.0.2/32"], &["route del prohibit 10.77.0.2/32"], &parts);
}

#[test]
fn a_route_that_swallows() {
    let parts = ["10.77.0.2:7000: Invalid argument", "`ip route get 10.77.0.2`"];
    says_so_as_long_as_it_lasts(&["route add blackhole 10.77.0.2/32"], &["route del blackhole 10.77.0.2/32"], &parts);
}

#[test]
fn no_route() {
    let parts = ["10.77.0.2:7000: Network is unreachable"];
    says_so_as_long_as_it_lasts(&["route del 10.77.0.0/24 dev am0"], &["route add 10.77.0.0/24 dev am0"], &parts);
}

#[test]
fn an_interface_that_is_down() {
    let parts = ["10.77.0.1", "`ip address`"];
    says_so_as_long_as_it_lasts(&["link set am0 down"], &["link set am0 up"], &parts);
}

#[test]
fn an_address_that_is_removed() {
    let parts = ["this host has no address 10.77.0.1 any more"];
    let (down, up) = (["addr del 10.77.0.1/24 dev am0"], ["addr add 10.77.0.1/24 dev am0"]);
    says_so_as_long_as_it_lasts(&down, &up, &parts);
}

fn errors(udp: &mut dyn Transport, tcp: &mut dyn Transport) -> [Option<String>; 2] {
    [udp.link_error(), tcp.link_error()]
}

/// As a server does that knows no peer yet. Wherever its thread is later, its own namespace counts.
#[test]
fn a_socket_that_only_receives_says_so() {
    let hosts = cable();
    ip("link set lo up");
    for address in [ADDRESSES[0], "127.0.0.1", "127.5.5.5", "[2001:db8::1]", "[::1]"] {
        // It was removed when the interface went down.
        ip("addr replace 2001:db8::1/64 dev am0 nodad");
        let mut udp = udp::open(&options(&format!("udp:{address}:7000"))).unwrap();
        let mut tcp = tcp::open(&options(&format!("tcp:{address}:7000"))).unwrap();
        enter(&hosts[1]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(errors(&mut udp, &mut tcp), [None, None], "{address}");
        let (interface, bare) = (
            if address.contains("127") || address == "[::1]" { "lo" } else { "am0" },
            address.trim_matches(['[', ']']),
        );
        let set = |state: &str| ip_on(&hosts[0], &format!("link set {interface} {state}"));
        set("down");
        until(&format!("both notice: {address}"), || {
            errors(&mut udp, &mut tcp).iter().flatten().filter(|error| error.contains(bare)).count() == 2
        });
        set("up");
        enter(&hosts[0]);
        if address == "[2001:db8::1]" {
            ip("addr replace 2001:db8::1/64 dev am0 nodad");
        }
        until("all is well", || errors(&mut udp, &mut tcp) == [None, None]);
    }
}

/// One of two peers is out of reach: the node works. Both: it does not.
#[test]
fn a_peer_of_several_is_no_error_of_the_link() {
    let hosts = cable();
    ip_on(&hosts[1], "addr add 10.77.0.3/24 dev am0");
    let peers = "peer=10.77.0.2:7000,peer=10.77.0.3:7000";
    let mut near = udp::open(&options(&format!("udp:10.77.0.1:0,{peers}"))).unwrap();
    ip("route add prohibit 10.77.0.2/32");
    shout(&mut near);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!((near.link_error(), counter(&near, "udp_sent")), (None, 1));
    ip("route add prohibit 10.77.0.3/32");
    shout(&mut near);
    until("both are refused", || near.link_error().is_some_and(|error| error.contains(", and to 1 more")));
    near.remove_peer("10.77.0.2:7000").unwrap();
    until("one is left", || near.link_error().is_some_and(|error| error.contains("10.77.0.3:7000: Permission")));
    near.remove_peer("10.77.0.3:7000").unwrap();
    assert_eq!(near.link_error(), None, "there is no peer");
}

#[test]
fn tcp_says_what_the_kernel_says() {
    let _hosts = cable();
    for (route, says) in [
        ("prohibit 10.77.0.2/32", "10.77.0.2:7000: Permission denied"),
        ("blackhole 10.77.0.2/32", "10.77.0.2:7000: Invalid argument"),
        ("unreachable 10.77.0.2/32", "10.77.0.2:7000: No route to host"),
    ] {
        ip(&format!("route add {route}"));
        let mut near = tcp::open(&options("tcp:10.77.0.1:0,peer=10.77.0.2:7000")).unwrap();
        until("it is said", || {
            receive(&mut near);
            near.link_error().is_some_and(|error| error.contains(says))
        });
        ip(&format!("route del {route}"));
        until("another host's answer is said", || {
            receive(&mut near);
            near.link_error().is_some_and(|error| error.contains("10.77.0.2:7000: Connection refused"))
        });
    }
}
