//! Longest frames over a cable with an MTU: what fits arrives, IP cuts nothing unless asked to. Needs root.

use crate::ends::{FLOW, acquaint, counter, is_quiet, numbered, options, place, receive_so_many, until};
use crate::hosts::{ADDRESSES, cable, enter, ip_on};
use am_netns::Host;
use am_sockets::{SocketOpenError, Udp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::Address;

/// Opened on this thread, which is on that host from then on.
fn open(host: &Host, name: &str) -> Result<Udp, SocketOpenError> {
    enter(host);
    udp::open(&options(name)).map(|mut end| {
        end.steer(FLOW, true);
        end
    })
}

fn pair(hosts: &[Host; 2], settings: &str) -> [Udp; 2] {
    let mut ends = [0, 1].map(|end| open(&hosts[end], &format!("udp:{}:0{settings}", ADDRESSES[end])).unwrap());
    let places = [place(&ends[0]), place(&ends[1])];
    ends[0].add_peer(&places[1]).unwrap();
    ends[1].add_peer(&places[0]).unwrap();
    acquaint(&mut ends);
    ends
}

#[test]
fn the_longest_frame_is_what_the_interface_carries() {
    let hosts = cable();
    let mut ends = pair(&hosts, "");
    assert_eq!(ends[0].caps().max_frame, 1500 - 28);
    let everywhere = open(&hosts[0], "udp:0.0.0.0:0").unwrap();
    assert_eq!(everywhere.caps().max_frame, 1500 - 28);
    let to = ends[1].caps().address;
    for number in 0..40 {
        let frame = numbered(&ends[0], to, number, 1472);
        assert!(ends[0].send(to, &frame), "room");
    }
    ends[0].flush();
    assert!(receive_so_many(&mut ends[1], 40).into_iter().eq(0..40));
    assert_eq!((counter(&ends[0], "udp_gso_messages"), counter(&ends[0], "udp_gso_refused")), (1, 0));
    let error = open(&hosts[0], "udp:10.77.0.1:0,frame=1473").err().unwrap().to_string();
    assert!(error.contains("162 to 1472") && error.contains("`fragment`"), "{error}");
}

#[test]
fn ip_cuts_where_it_is_asked_to() {
    let hosts = cable();
    let mut ends = pair(&hosts, ",fragment,frame=9000");
    let to = ends[1].caps().address;
    for number in 0..20 {
        let frame = numbered(&ends[0], to, number, 8000);
        assert!(ends[0].send(to, &frame), "room");
    }
    ends[0].flush();
    assert!(receive_so_many(&mut ends[1], 20).into_iter().eq(0..20), "cut by IP, and whole again");
    // GSO makes no datagram that IP would have to cut again: each went alone.
    assert_eq!((counter(&ends[0], "udp_gso_messages"), counter(&ends[0], "udp_lost_longer_than_mtu")), (0, 0));
    assert!(counter(&ends[0], "udp_gso_refused") > 0);
}

#[test]
fn an_interface_that_goes_down_and_comes_back_ends_nothing() {
    let hosts = cable();
    let mut ends = pair(&hosts, "");
    let set = |state: &str| ip_on(&hosts[0], &format!("link set am0 {state}"));
    set("down");
    for number in 0..5 {
        let frame = numbered(&ends[0], Address::BROADCAST, number, 100);
        assert!(ends[0].send(Address::BROADCAST, &frame), "room");
        ends[0].flush();
    }
    assert!(is_quiet(&mut ends[1]));
    assert_eq!(counter(&ends[0], "udp_lost_unreachable"), 5);
    until("it is said", || ends[0].link_error().is_some_and(|error| error.contains("its interface is down")));
    set("up");
    until("all is well", || ends[0].link_error().is_none());
    let mut arrived = vec![];
    until("frames arrive again", || {
        let frame = numbered(&ends[0], Address::BROADCAST, 7, 100);
        assert!(ends[0].send(Address::BROADCAST, &frame), "room");
        ends[0].flush();
        arrived.extend(crate::ends::receive(&mut ends[1]));
        !arrived.is_empty()
    });
}
