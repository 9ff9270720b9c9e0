//! `connect=`: one peer, and a socket that is connected to it.

use std::net::UdpSocket;

use crate::ends::{acquaint, connected_pair, counter, is_quiet, numbered, options, receive, receive_so_many, until};
use am_sockets::{Udp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::Address;

fn send(from: &mut Udp, to: Address, number: u32) {
    let frame = numbered(from, to, number, 100);
    assert!(from.send(to, &frame), "room");
    from.flush();
}

#[test]
fn frames_go_both_ways_alone_and_in_bursts() {
    for host in ["127.44.0.1", "[::1]"] {
        let mut ends = connected_pair(host);
        acquaint(&mut ends);
        for _ in 0..2 {
            ends.reverse();
            let [from, to] = &mut ends;
            let address = to.caps().address;
            for number in 0..100 {
                send(from, address, number);
                assert_eq!(receive_so_many(to, 1), [number]);
            }
            for number in 0..100 {
                let frame = numbered(from, address, number, 100);
                assert!(from.send(address, &frame), "room");
            }
            from.flush();
            assert_eq!(receive_so_many(to, 100), (0..100).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn datagrams_of_others_do_not_arrive() {
    let mut ends = connected_pair("127.44.0.1");
    acquaint(&mut ends);
    let [near, far] = &mut ends;
    let stranger = UdpSocket::bind("127.44.0.1:0").unwrap();
    let at = near.caps().name.split_once(':').unwrap().1.to_string();
    stranger.send_to(&[0; 100], at).unwrap();
    assert!(is_quiet(near));
    let address = near.caps().address;
    send(far, address, 7);
    assert_eq!(receive_so_many(near, 1), [7]);
}

#[test]
fn no_other_peer_can_be_added() {
    let [mut near, _far] = connected_pair("127.44.0.1");
    let error = near.add_peer("127.44.0.1:9").unwrap_err().to_string();
    assert!(error.contains("leave out `connect=`"), "{error}");
    let refused = udp::open(&options("udp:127.44.0.1:0,connect=127.44.0.1:9,peer=127.44.0.1:10"));
    let error = refused.err().expect("two peers are not one").to_string();
    assert!(error.contains("leave out `connect=`"), "{error}");
}

/// The network's answers to frames for a peer that is away are errors of the socket; none ends it.
#[test]
fn a_peer_that_comes_back_is_reached_again() {
    let mut ends = connected_pair("127.44.0.1");
    acquaint(&mut ends);
    let [mut near, far] = ends;
    let (address, name) = (far.caps().address, far.caps().name.clone());
    let to = near.caps().name.split_once(':').unwrap().1.to_string();
    drop(far);
    until("the network says that nobody is there", || {
        send(&mut near, address, 1);
        receive(&mut near);
        counter(&near, "udp_lost_refused") + counter(&near, "udp_receive_errors") > 0
    });
    let mut far = crate::ends::udp(&format!("{name},connect={to}"));
    until("a frame arrives", || {
        send(&mut near, Address::BROADCAST, 2);
        receive(&mut far).contains(&2)
    });
    assert!(near.link_error().is_none());
}
