//! A peer that is killed and comes back under its name somewhere else: at
//! another port, with another address. Who introduces whom, and when, makes no
//! difference, and neither does a first word that is lost.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::common::{Side, plain, until};
use crate::cut::{Cut, State, Switch};
use am_api::{HandlerId, Request};

const ECHO: HandlerId = HandlerId(1);

fn on(scheme: &str, port: u16) -> String {
    format!("{scheme}:127.0.0.1:{port}")
}

fn free_port() -> u16 {
    am_netns::free_port(Ipv4Addr::LOCALHOST)
}

fn open(name: &str, on: &str) -> (Side<u64>, Switch) {
    let transport = am_api::transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let place = transport.caps().name.clone();
    let (transport, switch) = Cut::new(&place, transport);
    // Beacons come too seldom to help.
    let builder = plain(name).beacon(Duration::from_secs(600));
    let mut side = Side::open(builder, Box::new(transport));
    side.endpoint.on_request(ECHO, |_, Request { message, token }| {
        token.reply(ECHO, message.words(), message.payload()).unwrap()
    });
    side.endpoint.on_reply(ECHO, |echoes: &mut u64, _| *echoes += 1);
    (side, switch)
}

/// It falls silent, and is gone.
fn kill((side, switch): (Side<u64>, Switch)) {
    switch.set(State::Silent);
    drop(side);
}

fn talk(alpha: &mut Side<u64>, beta: &mut Side<u64>) {
    let to = crate::common::connect(alpha, beta);
    let wanted = alpha.state + 10;
    until(alpha, beta, "answered", |alpha, _| {
        _ = alpha.endpoint.try_request(to, ECHO, &[1], b"hello");
        alpha.state >= wanted
    });
}

/// Longer than a word takes to be said and lost.
fn for_a_while(side: &mut Side<u64>) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        side.poll();
    }
}

/// Alpha talks to beta's first run and then, however it learns of it, to its second.
fn comes_back(scheme: &str, introduce: impl FnOnce(&mut Side<u64>, &str) -> (Side<u64>, Switch)) {
    let (mut alpha, _switch) = open("alpha", &on(scheme, 0));
    let mut first = open("beta", &on(scheme, 0));
    alpha.node.add_peer_address(&first.0.node.local_address()).unwrap();
    talk(&mut alpha, &mut first.0);
    kill(first);
    let (mut second, _switch) = introduce(&mut alpha, &on(scheme, free_port()));
    talk(&mut alpha, &mut second);
}

#[test]
fn it_introduces_itself() {
    comes_back("udp", |alpha, place| {
        let (second, switch) = open("beta", place);
        second.node.add_peer_address(&alpha.node.local_address()).unwrap();
        (second, switch)
    });
}

#[test]
fn it_is_introduced() {
    comes_back("udp", |alpha, place| {
        let (second, switch) = open("beta", place);
        alpha.node.add_peer_address(&second.node.local_address()).unwrap();
        (second, switch)
    });
}

#[test]
fn it_is_introduced_before_it_is_there() {
    comes_back("udp", |alpha, place| {
        alpha.node.add_peer_address(place).unwrap();
        for_a_while(alpha);
        open("beta", place)
    });
}

#[test]
fn its_first_word_is_lost() {
    comes_back("udp", |alpha, place| {
        let (mut second, switch) = open("beta", place);
        switch.set(State::Silent);
        second.node.add_peer_address(&alpha.node.local_address()).unwrap();
        for_a_while(&mut second);
        switch.set(State::Whole);
        alpha.node.add_peer_address(place).unwrap();
        (second, switch)
    });
}

#[test]
fn over_tcp_too() {
    comes_back("tcp", |alpha, place| {
        alpha.node.add_peer_address(place).unwrap();
        open("beta", place)
    });
}

#[test]
fn and_at_the_same_place() {
    let port = free_port();
    let (mut alpha, _switch) = open("alpha", "udp:127.0.0.1:0");
    alpha.node.add_peer_address(&on("udp", port)).unwrap();
    for _ in 0..5 {
        let mut beta = open("beta", &on("udp", port));
        talk(&mut alpha, &mut beta.0);
        kill(beta);
        assert_eq!(alpha.node.peers().len(), 1);
    }
}
