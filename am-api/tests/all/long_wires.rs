//! Long messages over bad wires, to peers that die, and from peers that stop.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, connect, plain, until};
use crate::cut::{Cut, State};
use crate::long::{ECHO, KEEP, MOST, Seen, listening, pattern, send};
use am_api::{Connection, Fate, HandlerId, Request, ReturnReason};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

fn over(faults: [Faults; 2]) -> (Side<Seen>, Side<Seen>, Connection) {
    let [left, right] = loopback::pair();
    let open = |name, plug: loopback::Plug, faults| {
        Side::open(plain(name), Box::new(Faulty::new(plug.open().expect("memory"), faults)))
    };
    listening((open("alpha", left, faults[0]), open("beta", right, faults[1])))
}

#[test]
fn whatever_the_network_does() {
    for seed in 0..6 {
        let bad = |seed| Faults { duplicate: 0.01, reorder: 0.05, reorder_by: 8, ..Faults::lossy(seed, 0.02) };
        let (mut alpha, mut beta, to) = over([bad(seed), bad(seed + 100)]);
        let lengths: Vec<usize> =
            (0..60).map(|at| [5, 3000, 100, 40_000, 200_000][(at * 7 + seed as usize) % 5]).collect();
        let all = send((&mut alpha, &mut beta), to, &lengths, 2);
        until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == all.len());
        assert_eq!(beta.state.asked, all);
        assert_eq!(alpha.state.answered, all);
    }
}

/// What alpha gets back when the wire falls silent after this number of turns.
fn cut_after(turns: usize) -> Vec<(u64, usize, ReturnReason, Fate)> {
    let [left, right] = loopback::pair();
    let (left, switch) = Cut::new("left", Box::new(left.open().expect("memory")));
    let patience = Duration::from_millis(200);
    let alpha = Side::open(plain("alpha").patience(patience), Box::new(left));
    let beta = Side::open(plain("beta").patience(patience), Box::new(right.open().expect("memory")));
    let (mut alpha, mut beta, to) = listening((alpha, beta));
    alpha.endpoint.try_request(to, KEEP, &[9, 8], &pattern(MOST, 9)).unwrap();
    for _ in 0..turns {
        alpha.poll();
        beta.poll();
    }
    switch.set(State::Silent);
    until(&mut alpha, &mut beta, "returned", |alpha, _| !alpha.state.returned.is_empty());
    assert!(beta.state.kept.is_empty() || alpha.state.returned[0].3 == Fate::Unknown);
    assert!(alpha.endpoint.is_accepted(to));
    std::mem::take(&mut alpha.state.returned)
}

#[test]
fn a_message_to_a_dead_peer_returns_whole() {
    for turns in [0, 1, 3, 10] {
        let returned = cut_after(turns);
        assert_eq!(returned.len(), 1, "{turns}");
        let (number, length, reason, fate) = returned[0];
        assert_eq!((number, length, reason), (9, MOST, ReturnReason::Unreachable), "{turns}");
        assert_eq!(fate, Fate::NotDelivered, "{turns}: it has not left as a whole");
    }
}

/// Many peers begin a message and stop. The memory stays within its limit, and the one that goes on is served.
#[test]
fn peers_that_stop_in_the_middle_leave_memory_to_others() {
    const LENGTH: usize = 200_000;
    const LIMIT: usize = 2 << 20;
    let network = format!("sim:{},nodes=64", std::process::id());
    let open = |name: &str| {
        let builder = plain(name).receive_frames(2000).send_frames(64).max_message(LENGTH).message_memory(LIMIT);
        Side::<u64>::open(builder, am_api::transports::open(&network).expect("a simulated network"))
    };
    let mut server = open("beta");
    server.endpoint.on_request(HandlerId(1), |handled, Request { message, .. }| {
        assert_eq!(message.payload(), pattern(LENGTH, message.word(0)));
        *handled += 1;
    });
    let stopped: Vec<Side<u64>> = (0..60)
        .map(|number| {
            let mut client = open(&format!("client{number}"));
            let to = connect(&mut client, &mut server);
            client.endpoint.try_request(to, HandlerId(1), &[number], &pattern(LENGTH, number)).expect("credit");
            client.endpoint.flush();
            server.poll();
            client
        })
        .collect();
    let mut live = open("live");
    let to = connect(&mut live, &mut server);
    let (start, mut sent) = (Instant::now(), 0);
    while server.state < 20 {
        if sent < 20 && live.endpoint.try_request(to, HandlerId(1), &[sent], &pattern(LENGTH, sent)).is_ok() {
            sent += 1;
        }
        live.poll();
        server.poll();
        assert!(start.elapsed() < LONG, "{} of 20 handled\n{}", server.state, server.node.counters());
    }
    assert!(server.counter("long_evicted") > 0 && server.counter("long_waited") > 0, "{}", server.node.counters());
    assert!(stopped.iter().all(|client| client.counter("returned") == 0));
}

/// The wire loses the head of a message, and segments of more messages arrive before it than may wait for their heads. They are sent
/// again, and those of later messages once.
#[test]
fn after_a_lost_head_segments_are_sent_once() {
    const MESSAGES: usize = 8;
    let [left, right] = loopback::pair();
    let (left, switch) = Cut::new("left", Box::new(left.open().expect("memory")));
    let sides = (
        Side::open(plain("alpha"), Box::new(left)),
        Side::open(plain("beta"), Box::new(right.open().expect("memory"))),
    );
    let (mut alpha, mut beta, to) = listening(sides);
    let mut segments = |first: State| {
        let before = alpha.counter("bulk_segments_sent");
        switch.set(first);
        for number in 0..MESSAGES as u64 {
            alpha.endpoint.try_request(to, ECHO, &[number], &pattern(3000, number)).unwrap();
            switch.set(State::Whole);
            alpha.endpoint.flush();
        }
        until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == MESSAGES);
        alpha.state.answered.clear();
        alpha.counter("bulk_segments_sent") - before
    };
    let once = segments(State::Whole);
    assert!(segments(State::Silent) > once, "some were dropped before their heads arrived");
    assert_eq!(segments(State::Whole), once);
}
