//! Who gets how much of the daemon: one thread turns the daemon and is all programs.

use am_daemon::{Daemon, DaemonOptions, schedule::ATTEMPTS};
use am_transport::Transport;
use am_vnic::VnicOptions;
use am_wire::Address;
use am_wire::control::NodeId;

use crate::common::Place;
use crate::intruder::{Intruder, name};

/// Attach to a daemon that this thread turns, and say a name.
fn attach(daemon: &mut Daemon, place: &Place, text: &str) -> Intruder {
    let attaching = am_vnic::begin(&VnicOptions::new(place.socket())).unwrap();
    // It accepts the connection, and then reads from it.
    (0..2).for_each(|_| daemon.attend());
    let mut intruder = Intruder { port: attaching.finish().unwrap() };
    intruder.introduce(text);
    daemon.turn();
    assert_eq!(sent(daemon, text), 1);
    intruder
}

/// The frames of this program that passed.
fn sent(daemon: &Daemon, text: &str) -> u64 {
    let ports = daemon.list().ports;
    ports.iter().find(|port| port.name.as_deref() == Some(text)).unwrap().sent
}

/// Put frames into the lane until it is full.
fn flood(intruder: &mut Intruder, text: &str) {
    let name = name(text);
    let beacon = intruder.beacon(NodeId::of(&name), name, intruder.address());
    let frame = intruder.control(Address::BROADCAST, intruder.address(), &beacon);
    while intruder.port.send(Address::BROADCAST, &frame) {}
    intruder.port.flush();
}

#[test]
fn programs_that_flood_share_by_weight() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let names = ["one", "two", "four"];
    let mut programs = names.map(|name| attach(&mut daemon, &place, name));
    for (name, weight) in [("two", 2), ("four", 4)] {
        assert_eq!(daemon.set_weight(name, weight), am_daemon::admin::Answer::Done);
    }
    for turn in 0..20 {
        let before = names.map(|name| sent(&daemon, name));
        programs.iter_mut().zip(names).for_each(|(program, name)| flood(program, name));
        daemon.turn();
        let shares = [0, 1, 2].map(|nth| sent(&daemon, names[nth]) - before[nth]);
        assert_eq!(shares, [1, 2, 4].map(|weight| weight * ATTEMPTS as u64), "turn {turn}");
    }
    // The weight changes while frames wait.
    daemon.set_weight("four", 1);
    let before = sent(&daemon, "four");
    daemon.turn();
    assert_eq!(sent(&daemon, "four") - before, ATTEMPTS as u64);
}

#[test]
fn a_flood_delays_another_program_by_one_visit_at_most() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let mut loud = attach(&mut daemon, &place, "loud");
    let mut quiet = attach(&mut daemon, &place, "quiet");
    for _ in 0..20 {
        flood(&mut loud, "loud");
        let (before, its) = (sent(&daemon, "loud"), sent(&daemon, "quiet"));
        quiet.introduce("quiet");
        daemon.turn();
        assert_eq!(sent(&daemon, "quiet"), its + 1, "in the same turn");
        assert_eq!(sent(&daemon, "loud") - before, ATTEMPTS as u64);
    }
}
