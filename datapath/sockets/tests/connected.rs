//! The second socket of UDP: for whom it is, who arrives where, and that nothing is lost between the two.

mod ends;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::thread;

use am_sockets::{OpenError, Udp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::Address;
use ends::{
    acquaint, counter, exchange, favour, is_quiet, numbered, numbered_as, options, place, receive, receive_so_many,
    udp, udp_pair, until,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// An address that nobody else uses: nodes of other programs go on looking for peers at ports that were theirs.
const ANY: &str = "udp:127.44.0.1:0";

/// Two that know each other, and the second is the first one's favourite.
fn friends(name: &str) -> [Udp; 2] {
    let mut ends = [udp(name), udp(name)];
    for (from, to) in [(0, 1), (1, 0)] {
        let there = reachable(&ends[to]);
        ends[from].add_peer(&there).unwrap();
    }
    acquaint(&mut ends);
    let [near, far] = &mut ends;
    favour(near, far);
    ends
}

/// Its place on this host, also of one that is everywhere.
fn reachable(end: &Udp) -> String {
    place(end).replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
}

fn send(from: &mut Udp, to: Address, number: u32) {
    let frame = numbered(from, to, number, 100);
    assert!(from.send(to, &frame), "room");
    from.flush();
}

fn connected(end: &Udp) -> bool {
    counter(end, "udp_connected") == 1
}

#[test]
fn everybody_is_heard_beside_the_favourite_and_at_their_own_places() {
    for name in [ANY, "udp:0.0.0.0:0", "udp:[::1]:0", "udp:[::]:0"] {
        let mut ends = friends(name);
        let mut stranger = udp(name);
        stranger.add_peer(&reachable(&ends[0])).unwrap();
        for round in 0..50 {
            let [near, far] = &mut ends;
            exchange(near, far, round);
            if round % 20 == 0 {
                send(&mut stranger, Address::BROADCAST, 1000 + round);
                assert_eq!(receive_so_many(near, 1), [1000 + round], "{name}");
                send(near, stranger.caps().address, 2000 + round);
                assert_eq!(receive_so_many(&mut stranger, 1), [2000 + round], "{name}");
            }
            send(near, far.caps().address, round);
            assert_eq!(receive_so_many(far, 1), [round], "{name}");
        }
        assert!(connected(&ends[0]), "{name}: now and then another one does not end it");
        assert_eq!(ends[0].peer(stranger.caps().address).address, Some(format!("udp:{}", reachable(&stranger))));
        assert_eq!((counter(&ends[0], "udp_places"), counter(&ends[0], "udp_connect_failed")), (2, 0));
    }
}

#[test]
fn others_who_talk_more_get_it() {
    let mut ends = friends(ANY);
    let mut other = udp(ANY);
    other.add_peer(&place(&ends[0])).unwrap();
    favour(&mut ends[0], &mut other);
    let [near, far] = &mut ends;
    for number in 0..5 {
        exchange(near, far, number);
        exchange(near, &mut other, number);
    }
    assert!(connected(near));
}

#[test]
fn bursts_are_left_to_the_shared_socket_and_nothing_of_them_is_lost() {
    let mut ends = friends(ANY);
    let to = ends[0].caps().address;
    for round in 0..3 {
        for number in 0..60 {
            let frame = numbered(&ends[1], to, number, 1000);
            assert!(ends[1].send(to, &frame), "room");
        }
        ends[1].flush();
        assert!(receive_so_many(&mut ends[0], 60).into_iter().eq(0..60), "round {round}");
        assert!(!connected(&ends[0]));
    }
    assert!(counter(&ends[0], "udp_gro_messages") >= 2, "it merges again");
}

#[test]
fn what_the_kernel_merges_is_a_burst_too() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let to = ends[0].caps().address;
    for _ in 0..200 {
        for number in 0..2 {
            let frame = numbered(&ends[1], to, number, 1000);
            assert!(ends[1].send(to, &frame), "room");
        }
        ends[1].flush();
        assert_eq!(receive_so_many(&mut ends[0], 2), [0, 1]);
        (0..8).for_each(|_| assert!(receive(&mut ends[0]).is_empty()));
    }
    assert_eq!((counter(&ends[0], "udp_gro_messages"), counter(&ends[0], "udp_connects")), (200, 0));
}

#[test]
fn who_sleeps_is_woken_by_either_and_has_no_favourite() {
    let mut ends = friends(ANY);
    let mut other = udp(ANY);
    other.add_peer(&place(&ends[0])).unwrap();
    let wake = ends[0].caps().wake.clone().unwrap();
    let is_awake = |milliseconds: u8| {
        let mut on: Vec<_> = wake.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut on, PollTimeout::from(milliseconds)).unwrap() > 0
    };
    let [near, far] = &mut ends;
    for from in [far, &mut other] {
        assert!(!is_awake(0));
        send(from, near.caps().address, 7);
        assert!(is_awake(250));
        assert_eq!(receive_so_many(near, 1), [7]);
    }
    // One look for each, as of one who sleeps in between: from everybody, nobody's favourite.
    let connects = counter(near, "udp_connects");
    for number in 0..1000 {
        send(&mut other, near.caps().address, number);
        assert_eq!(receive_so_many(near, 1), [number]);
    }
    assert_eq!(counter(near, "udp_connects"), connects);
    assert!(!is_awake(0));
}

#[test]
fn a_favourite_that_moves_is_followed() {
    let mut ends = friends(ANY);
    let [near, old] = &mut ends;
    let its = old.caps().address;
    // As a node that has two sockets, both introduced: it says that it is at the other.
    let mut new = udp(ANY);
    new.add_peer(&place(near)).unwrap();
    near.add_peer(&place(&new)).unwrap();
    let beacon = numbered_as(&new, its, Address::BROADCAST, 3, 100);
    assert!(new.send(Address::BROADCAST, &beacon), "room");
    new.flush();
    assert_eq!(receive_so_many(near, 1), [3]);
    assert_eq!(counter(near, "udp_learned_moved"), 1);
    let frame = numbered_as(near, near.caps().address, its, 4, 100);
    assert!(near.send(its, &frame), "room");
    near.flush();
    assert!(is_quiet(old), "nothing is sent to where it was");
    until("it arrives where it is", || {
        new.receive(4, &mut |_| ());
        counter(&new, "steer_pass_other_host") == 1
    });
    favour(near, &mut new);
}

#[test]
fn a_favourite_that_dies_and_comes_back_at_its_place_goes_on() {
    let mut ends = friends(ANY);
    let [near, far] = ends.each_mut();
    let (there, its) = (place(far), far.caps().address);
    let here = place(near);
    let [mut near, far] = ends;
    drop(far);
    for number in 0..50 {
        send(&mut near, its, number);
        assert!(receive(&mut near).is_empty());
    }
    assert_eq!(near.link_error(), None);
    assert_eq!(counter(&near, "udp_lost_refused"), 0);
    // That nobody was there to take this one is said when the next is sent, which has to leave all the same.
    send(&mut near, its, 50);
    let mut again = udp(&format!("udp:{there}"));
    again.add_peer(&here).unwrap();
    for number in 0..3 {
        let frame = numbered(&near, its, number, 100);
        assert!(near.send(its, &frame), "room");
        near.flush();
    }
    until("all that is sent arrives", || {
        again.receive(4, &mut |_| ());
        counter(&again, "steer_pass_other_host") == 3
    });
    send(&mut again, Address::BROADCAST, 9);
    assert_eq!(receive_so_many(&mut near, 1), [9]);
    assert_eq!(near.peer(again.caps().address).address, Some(format!("udp:{there}")));
    (0..100).for_each(|number| exchange(&mut near, &mut again, number));
    assert_eq!((counter(&near, "udp_connected"), counter(&near, "udp_connects")), (1, 1));
}

#[test]
fn the_port_stays_its_own() {
    let ends = friends(ANY);
    let name = ends[0].caps().name.clone();
    for name in [name.clone(), name.replace("127.44.0.1", "0.0.0.0")] {
        assert!(matches!(udp::open(&options(&name)), Err(OpenError::InUse { .. })), "{name}");
    }
    let sharing = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&sharing, true).unwrap();
    let there: SocketAddr = place(&ends[0]).parse().unwrap();
    assert_eq!(rustix::net::bind(&sharing, &there), Err(rustix::io::Errno::ADDRINUSE));
    drop(ends);
    drop(udp(&name));
}

/// One who tries all the time, with the option by which sockets of different users share a port.
#[test]
fn nobody_gets_in_while_the_second_socket_is_bound() {
    let (wanted, is_over) = (AtomicU16::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let its = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
            rustix::net::sockopt::set_socket_reuseaddr(&its, true).unwrap();
            let has_it = |port| port > 0 && rustix::net::bind(&its, &SocketAddr::from(([127, 44, 0, 1], port))).is_ok();
            while !is_over.load(Relaxed) && !has_it(wanted.load(Relaxed)) {
                std::hint::spin_loop();
            }
            !is_over.load(Relaxed)
        });
        let mut kept = vec![];
        for _ in 0..10 {
            let mut ends = udp_pair(ANY);
            acquaint(&mut ends);
            let [near, far] = &mut ends;
            wanted.store(place(near).parse::<SocketAddr>().unwrap().port(), Relaxed);
            favour(near, far);
            wanted.store(0, Relaxed);
            kept.push(ends);
        }
        is_over.store(true, Relaxed);
        assert!(!stranger.join().unwrap());
    });
}

#[test]
#[ignore = "started by without_a_descriptor_for_it_all_goes_on"]
fn limited() {
    let mut far = udp(ANY);
    let limit = |most| {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: before.maximum }).expect("lower is allowed");
    };
    let lowest = std::fs::File::open("/dev/null").map(|file| std::os::fd::AsRawFd::as_raw_fd(&file) as u64).unwrap();
    limit(lowest + 2);
    let mut alone = udp(ANY);
    limit(lowest + 10);
    let mut both = udp(ANY);
    limit(lowest);
    for (near, has_it) in [(&mut alone, false), (&mut both, true)] {
        far.add_peer(&place(near)).unwrap();
        (0..300).for_each(|number| exchange(near, &mut far, number));
        // It was taken when the other was opened: it needs no descriptor now.
        assert_eq!(connected(near), has_it);
    }
}

#[test]
fn without_a_descriptor_for_it_all_goes_on() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", "limited", "--ignored", "--nocapture"]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_pair_may_favour_each_other() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let [near, far] = &mut ends;
    favour(near, far);
    favour(far, near);
    for number in 0..100 {
        exchange(near, far, number);
        exchange(far, near, number);
    }
    assert!(connected(near) && connected(far));
}
