//! Return to sender, with whole nodes: from a receiver without room, to be sent
//! again; and from one that is gone, to the sender's error handler.

use std::time::Duration;

use crate::common::{Side, plain};
use am_api::{
    Builder, Class, Clock, Connection, HandlerId, Incarnation, ManualClock, Request, RequestError, ReturnReason,
};
use am_transport::loopback::{self, LoopbackOptions, Plug};

const WORK: HandlerId = HandlerId(3);

/// What a turn of all nodes takes.
const TURN: Duration = Duration::from_micros(5);

/// Nodes on one wire, and the hand of their clock.
struct Wire {
    clock: Clock,
    hand: ManualClock,
    ends: Vec<Plug>,
}

impl Wire {
    fn new(ends: usize, options: LoopbackOptions) -> Wire {
        let (clock, hand) = Clock::manual();
        Wire { clock, hand, ends: loopback::wire_with(ends, options) }
    }

    fn side<S: Default>(&mut self, builder: Builder) -> Side<S> {
        let end = self.ends.pop().expect("an end").open().expect("memory");
        Side::open(builder.clock(self.clock.clone(), Incarnation(1)), crate::common::fated::fated(Box::new(end)))
    }
}

/// Which messages arrived or came back, how often.
type Seen = Vec<u8>;

fn see(seen: &mut Seen, number: u64) {
    let number = number as usize;
    if seen.len() <= number {
        seen.resize(number + 1, 0);
    }
    seen[number] += 1;
}

fn note_requests(side: &mut Side<Seen>) {
    side.endpoint.on_request(WORK, |seen, Request { message: request, .. }| see(seen, request.word(0)));
}

/// So many conversations with the endpoint "main" of a node.
fn connect_all(
    wire: &Wire,
    alpha: &mut Side<Seen>,
    mut others: [&mut Side<Seen>; 2],
    to: &str,
    count: usize,
) -> Vec<Connection> {
    let all: Vec<Connection> = (0..count).map(|_| alpha.endpoint.connect(to, "main").expect("asked for")).collect();
    for _ in 0..100_000 {
        if all.iter().all(|to| alpha.endpoint.is_open(*to)) {
            return all;
        }
        alpha.poll();
        others.iter_mut().for_each(|other| _ = other.poll());
        wire.hand.advance(TURN);
    }
    panic!("never open: {}", alpha.node.counters());
}

/// 600 conversations promise more than 64 frames hold.
#[test]
fn more_than_the_receiver_has_room_for_is_sent_again_until_it_has() {
    const EACH: u64 = 3;
    let mut wire = Wire::new(3, LoopbackOptions { frames: 8192, ..LoopbackOptions::default() });
    let mut alpha = wire.side::<Seen>(plain("alpha"));
    let mut beta = wire.side::<Seen>(plain("beta").receive_frames(64));
    let mut gamma = wire.side::<Seen>(plain("gamma"));
    note_requests(&mut beta);
    note_requests(&mut gamma);
    let flows = connect_all(&wire, &mut alpha, [&mut beta, &mut gamma], "beta", 600);
    let to_gamma = connect_all(&wire, &mut alpha, [&mut beta, &mut gamma], "gamma", 1)[0];
    // Another endpoint of beta is polled: frames come in, and nothing is taken
    // out for the one that is meant.
    let mut other = beta.node.endpoint::<()>("other").expect("an endpoint");
    let mut number = 0;
    for (round, to) in flows.into_iter().enumerate() {
        for _ in 0..EACH {
            alpha.endpoint.try_request(to, WORK, &[number], b"").expect("credit");
            number += 1;
        }
        alpha.endpoint.try_request(to_gamma, WORK, &[round as u64], b"").expect("credit");
        for _ in 0..4 {
            _ = (alpha.poll(), other.poll(&mut ()), gamma.poll());
            wire.hand.advance(TURN);
        }
        assert_eq!(gamma.state.len(), round + 1, "what is for gamma does not wait for beta");
    }
    assert_eq!(beta.state.len(), 0);
    assert!(beta.counter("rejects_sent") > 1000, "{}", beta.node.counters());
    while beta.state.len() < number as usize || beta.state.contains(&0) {
        _ = (alpha.poll(), beta.poll(), gamma.poll());
        wire.hand.advance(TURN);
    }
    assert!(beta.state.iter().all(|&times| times == 1) && gamma.state.iter().all(|&times| times == 1));
    assert_eq!((alpha.counter("timeouts"), beta.counter("duplicates")), (0, 0), "{}", alpha.node.counters());
    assert_eq!(alpha.counter("rejected_resent"), alpha.counter("rejects_received"));
}

/// Each comes back as it was sent, and meanwhile another peer is served.
#[test]
fn ten_thousand_messages_under_way_to_a_receiver_that_is_killed_come_back_within_two_seconds() {
    const COUNT: u64 = 10_000;
    let options = LoopbackOptions { frames: 80_000, queue: 1 << 17, max_frame: 256, ..LoopbackOptions::default() };
    let mut wire = Wire::new(3, options);
    let mut alpha = wire.side::<Seen>(plain("alpha").send_frames(12_000));
    let mut beta = wire.side::<Seen>(plain("beta").receive_frames(60_000).window(512));
    let mut gamma = wire.side::<Seen>(plain("gamma"));
    note_requests(&mut gamma);
    let flows = connect_all(&wire, &mut alpha, [&mut beta, &mut gamma], "beta", 25);
    let to_gamma = connect_all(&wire, &mut alpha, [&mut beta, &mut gamma], "gamma", 1)[0];
    alpha.endpoint.on_returned(|back, returned| {
        assert_eq!((returned.reason, returned.class()), (ReturnReason::Unreachable, Class::Request));
        assert_eq!(returned.message.payload(), content(returned.message.word(0)));
        see(back, returned.message.word(0));
    });
    for number in 0..COUNT {
        let to = flows[number as usize % flows.len()];
        alpha.endpoint.try_request(to, WORK, &[number], &content(number)).expect("credit");
    }
    // As if killed: no farewell, and nobody polls it any more.
    crate::common::fated::dies(beta);
    let mut fresh = 0;
    for _ in 0..2_000_000 / TURN.as_micros() {
        match alpha.endpoint.try_request(to_gamma, WORK, &[fresh], b"") {
            Ok(()) => fresh += 1,
            Err(error) => assert_eq!(error, RequestError::NoCredit),
        }
        _ = (alpha.poll(), gamma.poll());
        wire.hand.advance(TURN);
    }
    assert_eq!(alpha.state.len(), COUNT as usize, "{}", alpha.node.counters());
    assert!(alpha.state.iter().all(|&times| times == 1), "each once");
    assert!(gamma.state.len() > 100_000 && gamma.state.iter().all(|&times| times == 1), "{fresh} to gamma");
    assert_eq!(
        alpha.endpoint.try_request(flows[0], WORK, &[], b""),
        Err(RequestError::Dead(ReturnReason::Unreachable))
    );
}

fn content(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 150]
}
