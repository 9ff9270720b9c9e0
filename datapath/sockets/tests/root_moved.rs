//! What becomes of the connected socket when addresses change under it. Needs root.

mod ends;

use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::AsFd;
use std::process::Command;

use am_netns::{Host, VethOptions, veth};
use am_sockets::{Udp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::Buffer;
use ends::{FLOW, acquaint, counter, favour, numbered, numbered_as, options, receive_so_many, until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};

/// Two hosts and a cable between them.
fn cable() -> [Host; 2] {
    let hosts = ["near", "far"].map(|name| Host::new(name).unwrap_or_else(|error| panic!("{error}")));
    let options = VethOptions { addresses: Some(("10.77.0.1/24", "10.77.0.2/24")), ..VethOptions::default() };
    veth(&hosts[0], "am0", &hosts[1], "am0", &options).unwrap_or_else(|error| panic!("{error}"));
    hosts
}

/// Opened on this thread, which is on that host from then on.
fn open(host: &Host, name: &str) -> Udp {
    setns(host, CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
    let mut end = udp::open(&options(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    end.steer(FLOW, true);
    end
}

fn ip(host: &Host, arguments: &str) {
    let run = || Command::new("ip").args(arguments.split(' ')).status();
    assert!(host.enter(run).unwrap().unwrap().success(), "ip {arguments}");
}

/// The first is at every address of its host, and talks with the second until it is its favourite.
fn friends(hosts: &[Host; 2]) -> [Udp; 2] {
    let mut ends = [open(&hosts[0], "udp:0.0.0.0:7000"), open(&hosts[1], "udp:10.77.0.2:7000")];
    ends[0].add_peer("10.77.0.2:7000").unwrap();
    ends[1].add_peer("10.77.0.1:7000").unwrap();
    acquaint(&mut ends);
    let [near, far] = &mut ends;
    favour(near, far);
    ends
}

#[test]
fn when_the_own_address_changes_all_that_is_sent_arrives_and_it_is_connected_anew() {
    let hosts = cable();
    let mut ends = friends(&hosts);
    ip(&hosts[0], "address del 10.77.0.1/24 dev am0");
    ip(&hosts[0], "address add 10.77.0.9/24 dev am0");
    let [near, far] = &mut ends;
    for number in 0..20 {
        let to = far.caps().address;
        let frame = numbered(near, to, number, 100);
        assert!(near.send(to, &frame), "room");
        near.flush();
        assert_eq!(receive_so_many(far, 1), [number]);
        assert!(ends::receive(near).is_empty());
    }
    // It says so itself, from where it is now.
    far.add_peer("10.77.0.9:7000").unwrap();
    acquaint(&mut ends);
    assert_eq!(ends[1].peer(ends[0].caps().address).address.unwrap(), "udp:10.77.0.9:7000");
    let [near, far] = &mut ends;
    favour(near, far);
    assert_eq!(near.link_error(), None);
}

/// The system answers from the address that is on the way to the peer; this one writes to another, and is heard all the same.
#[test]
fn who_writes_to_another_address_of_the_host_is_heard() {
    let hosts = cable();
    ip(&hosts[0], "address add 10.99.0.1/32 dev lo");
    ip(&hosts[1], "route add 10.99.0.1/32 dev am0");
    let [mut near, far] = friends(&hosts);
    let its = far.caps().address;
    drop(far);
    let elsewhere = UdpSocket::bind("10.77.0.2:7000").unwrap();
    let mut number = 0;
    until("it is noticed that it is of no use", || {
        number += 1;
        let frame = numbered_as(&near, its, near.caps().address, number, 100);
        elsewhere.send_to(frame.bytes(), "10.99.0.1:7000").unwrap();
        assert_eq!(receive_so_many(&mut near, 1), [number]);
        counter(&near, "udp_connected") == 0
    });
}

/// Without loopback, as in a namespace that somebody has just made, there is no way to nobody.
#[test]
fn where_it_cannot_be_parted_from_its_peer_it_is_looked_at_as_often_as_the_other() {
    let hosts = cable();
    ip(&hosts[0], "address flush dev lo");
    let [mut near, mut far] = friends(&hosts);
    let to = near.caps().address;
    let send = |far: &mut Udp, numbers: Range<u32>| {
        for number in numbers {
            let frame = numbered(far, to, number, 100);
            assert!(far.send(to, &frame), "room");
        }
        far.flush();
    };
    send(&mut far, 0..60);
    assert_eq!(receive_so_many(&mut near, 60).len(), 60);
    assert_eq!(counter(&near, "udp_connected"), 0);
    // Longer than what was on its way then can be.
    (0..5).for_each(|_| assert!(ends::is_quiet(&mut near)));
    send(&mut far, 60..61);
    let wake = near.caps().wake.clone().unwrap();
    let mut on: Vec<_> = wake.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut on, PollTimeout::NONE).unwrap();
    let found: Vec<_> = (0..4).flat_map(|_| ends::receive(&mut near)).collect();
    assert_eq!(found, [60]);
    ip(&hosts[0], "address add 127.0.0.1/8 dev lo");
    favour(&mut near, &mut far);
}
