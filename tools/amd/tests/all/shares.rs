//! Who gets how much of the daemon: one thread turns the daemon and is all programs.

use am_daemon::{Daemon, DaemonOptions, PAUSE, schedule::ATTEMPTS};
use am_transport::Transport;
use am_vnic::VnicOptions;
use am_wire::control::{Accept, Control};
use am_wire::{Flow, Framing, Kind};

use crate::common::Place;
use crate::forgeries::{flow, offer};
use crate::intruder::{Intruder, header};

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

/// The frames of this program that were refused.
fn refused(daemon: &Daemon, text: &str) -> u64 {
    let ports = daemon.list().ports;
    ports.iter().find(|port| port.name.as_deref() == Some(text)).unwrap().refused.values().sum()
}

/// Put messages for the sink into the lane until it is full.
fn flood(intruder: &mut Intruder, sink: &Intruder, flow: Flow) {
    let to = sink.address();
    let frame = intruder.frame(to, intruder.address(), Framing::Split, &header(Kind::Request, flow), b"flood");
    while intruder.port.send(to, &frame) {}
    intruder.port.flush();
}

/// A program that lets the others send to it, and reads nothing.
fn sink(daemon: &mut Daemon, place: &Place, others: &[Intruder]) -> Intruder {
    let mut sink = attach(daemon, place, "sink");
    for other in others {
        let accept = Accept { id: 1, offer: offer(GRANTED) };
        sink.send(&sink.control(other.address(), sink.address(), &Control::Accept(accept)));
        daemon.turn();
    }
    sink
}

const GRANTED: u16 = 7;

#[test]
fn programs_that_flood_share_by_weight() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let names = ["one", "two", "four"];
    let mut programs = names.map(|name| attach(&mut daemon, &place, name));
    let sink = sink(&mut daemon, &place, &programs);
    for (name, weight) in [("two", 2), ("four", 4)] {
        assert_eq!(daemon.set_weight(name, weight), am_daemon::admin::Answer::Done);
    }
    for turn in 0..20 {
        let before = names.map(|name| sent(&daemon, name));
        programs.iter_mut().for_each(|program| flood(program, &sink, flow(GRANTED)));
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
    let sink = sink(&mut daemon, &place, std::slice::from_ref(&loud));
    for _ in 0..20 {
        flood(&mut loud, &sink, flow(GRANTED));
        let (before, its) = (sent(&daemon, "loud"), sent(&daemon, "quiet"));
        quiet.introduce("quiet");
        daemon.turn();
        assert_eq!(sent(&daemon, "quiet"), its + 1, "in the same turn");
        assert_eq!(sent(&daemon, "loud") - before, ATTEMPTS as u64);
    }
}

#[test]
fn refused_frames_get_an_attempt_now_and_then_and_control_frames_one_of_a_turn() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let mut hostile = attach(&mut daemon, &place, "hostile");
    let mut quiet = attach(&mut daemon, &place, "quiet");
    for turn in 0..20 * (u64::from(PAUSE) + 1) {
        // A flow that nobody granted.
        flood(&mut hostile, &quiet, flow(GRANTED));
        let (before, its) = (refused(&daemon, "hostile"), sent(&daemon, "quiet"));
        quiet.introduce("quiet");
        daemon.turn();
        let expected = u64::from(turn.is_multiple_of(u64::from(PAUSE) + 1));
        assert_eq!(refused(&daemon, "hostile") - before, expected, "turn {turn}");
        assert_eq!(sent(&daemon, "quiet"), its + 1, "in the same turn");
    }
    let mut loud = attach(&mut daemon, &place, "loud");
    (0..100).for_each(|_| loud.introduce("loud"));
    let before = sent(&daemon, "loud");
    daemon.turn();
    assert_eq!(sent(&daemon, "loud") - before, 1, "a beacon goes to all ports");
}
