//! A wire that loses, duplicates and reorders: every message is delivered once.
//!
//! Both nodes run on one thread and on a clock that is moved by hand: a
//! microsecond a turn, and to the next thing that is due when nothing moves. So
//! that ten million messages cost their instructions and not their waiting,
//! and a failure repeats by its seed.

use std::time::Duration;

use crate::common::{Side, until};
use am_api::{Builder, Clock, Connection, Framing, HandlerId, Incarnation, ManualClock, Node, Request, Transport};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

const TELL: HandlerId = HandlerId(0);
const ASK: HandlerId = HandlerId(1);
const ANSWER: HandlerId = HandlerId(2);

/// Which messages have come, and what is wrong with them.
#[derive(Default)]
struct Ledger {
    seen: Vec<u64>,
    count: u64,
    twice: u64,
    damaged: u64,
    sum: u64,
}

impl Ledger {
    fn enter(&mut self, number: u64, payload: &[u8]) {
        let (limb, bit) = (number as usize / 64, 1 << (number % 64));
        if self.seen.len() <= limb {
            self.seen.resize(2 * limb + 1024, 0);
        }
        self.twice += u64::from(self.seen[limb] & bit != 0);
        self.seen[limb] |= bit;
        self.count += 1;
        self.sum = self.sum.wrapping_add(number);
        self.damaged += u64::from(payload != content(number, &mut [0; LONGEST]));
    }

    fn check(&self, count: u64, what: &str) {
        assert_eq!((self.twice, self.damaged), (0, 0), "{what} delivered twice, damaged");
        assert_eq!((self.count, self.sum), (count, count * (count - 1) / 2), "{what}: how many, sum of their numbers");
    }
}

const LONGEST: usize = 64;

/// The bytes of a message: their length and value depend on its number.
fn content(number: u64, buffer: &mut [u8; LONGEST]) -> &[u8] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (at, chunk) in buffer.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mixed.rotate_left(at as u32 * 7).to_be_bytes());
    }
    &buffer[..(mixed >> 58) as usize]
}

/// `alpha` and `beta`, each behind a faulty end of a wire, and their clock.
fn faulty(framing: Framing, faults: Faults, bundles: bool) -> (Side<Ledger>, Side<[Ledger; 2]>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let mut ends = loopback::pair().into_iter().zip([faults, Faults { seed: !faults.seed, ..faults }]);
    let mut end = || -> Box<dyn Transport> {
        let (plug, faults) = ends.next().expect("an end");
        Box::new(Faulty::new(plug.open().expect("memory"), faults))
    };
    let node = |name| -> Builder {
        Node::builder(name).framing(framing).coalesce(bundles).clock(clock.clone(), Incarnation(1))
    };
    let mut alpha = Side::open(node("alpha"), end());
    let mut beta = Side::open(node("beta"), end());
    alpha.endpoint.on_reply(ANSWER, |ledger: &mut Ledger, reply| ledger.enter(reply.word(0), reply.payload()));
    beta.endpoint.on_request(TELL, |[told, _]: &mut [Ledger; 2], Request { message: request, .. }| {
        told.enter(request.word(0), request.payload())
    });
    beta.endpoint.on_request(ASK, |[_, asked], Request { message: request, token }| {
        asked.enter(request.word(0), request.payload());
        token.reply(ANSWER, request.words(), request.payload()).expect("a reply");
    });
    (alpha, beta, hand)
}

fn connect(alpha: &mut Side<Ledger>, beta: &mut Side<[Ledger; 2]>, hand: &ManualClock) -> Connection {
    let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    until(alpha, beta, "connected", |alpha, _| {
        hand.advance(Duration::from_micros(50));
        alpha.endpoint.is_open(to)
    });
    to
}

/// Sends `count` messages of each kind in turn and waits for all.
struct Storm {
    to: Connection,
    count: u64,
    told: u64,
    asked: u64,
}

impl Storm {
    /// As many as there is credit for, both kinds evenly. Whether any went.
    fn send(&mut self, alpha: &Side<Ledger>) -> bool {
        let before = self.told + self.asked;
        while self.asked < self.count {
            let (handler, number) =
                if self.told > self.asked { (ASK, &mut self.asked) } else { (TELL, &mut self.told) };
            if alpha.endpoint.try_request(self.to, handler, &[*number], content(*number, &mut [0; LONGEST])).is_err() {
                break;
            }
            *number += 1;
        }
        self.told + self.asked > before
    }

    fn run(mut self, alpha: &mut Side<Ledger>, beta: &mut Side<[Ledger; 2]>, hand: &ManualClock) {
        let mut still = 0;
        while beta.state[0].count < self.count || alpha.state.count < self.count {
            let moved = self.send(alpha) as usize + alpha.poll() + beta.poll();
            hand.advance(Duration::from_micros(if moved > 0 { 1 } else { 20 }));
            still = if moved > 0 { 0 } else { still + 1 };
            assert!(still < STILL, "nothing moves any more\n{}\n{}", alpha.node.counters(), beta.node.counters());
        }
    }
}

/// Turns that find nothing in a row: more than any repair takes, 20 s on the nodes' clock.
const STILL: u32 = 1_000_000;

/// `messages` in all: half of them requests without an answer, a quarter with, a quarter answers.
fn every_message_once(
    framing: Framing,
    faults: Faults,
    bundles: bool,
    messages: u64,
) -> (Side<Ledger>, Side<[Ledger; 2]>) {
    let (mut alpha, mut beta, hand) = faulty(framing, faults, bundles);
    let to = connect(&mut alpha, &mut beta, &hand);
    let count = messages / 3;
    Storm { to, count, told: 0, asked: 0 }.run(&mut alpha, &mut beta, &hand);
    // What is still on its way, twice sent or late, must not count.
    for _ in 0..10_000 {
        hand.advance(Duration::from_micros(20));
        alpha.poll();
        beta.poll();
    }
    beta.state[0].check(count, "requests without an answer");
    beta.state[1].check(count, "requests with an answer");
    alpha.state.check(count, "answers");
    (alpha, beta)
}

#[test]
fn ten_million_messages_through_five_per_cent_of_everything() {
    let (alpha, beta) = every_message_once(Framing::Bare, Faults::lossy(20, 0.05), false, 10_000_002);
    for side in [alpha.node.counters(), beta.node.counters()] {
        for fault in ["faulty_dropped", "faulty_duplicated", "faulty_reordered"] {
            assert!(side.get(fault) > 100_000, "{fault} only {} times", side.get(fault));
        }
    }
}

/// What is lost, doubled and overtaken are bundles here.
#[test]
fn ten_million_messages_in_bundles_through_five_per_cent_of_everything() {
    let (alpha, beta) = every_message_once(Framing::Bare, Faults::lossy(21, 0.05), true, 10_000_002);
    for side in [alpha.node.counters(), beta.node.counters()] {
        for fault in ["faulty_dropped", "faulty_duplicated", "faulty_reordered"] {
            assert!(side.get(fault) > 10_000, "{fault} only {} times", side.get(fault));
        }
        let bundled = side.get("bundled_sent");
        assert!(bundled > 2_000_000, "{bundled}");
    }
}

#[test]
fn every_framing_delivers_once_through_a_bad_wire() {
    for (framing, seed) in Framing::ALL.into_iter().zip(1..) {
        for bundles in [false, true] {
            every_message_once(framing, Faults::lossy(seed, 0.20), bundles, 300_000);
        }
    }
}

#[test]
fn damaged_and_delayed_frames_too() {
    let faults = Faults { corrupt: 0.05, delay: 0.05, delay_by: 50, ..Faults::lossy(7, 0.05) };
    for bundles in [false, true] {
        every_message_once(Framing::Bare, faults, bundles, 300_000);
    }
}
