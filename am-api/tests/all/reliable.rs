//! Over a transport that loses nothing: acknowledgements bring credit and
//! little else, and nothing is sent twice. And over one that says so and does
//! not keep its word, as a connection does that breaks: everything arrives, once.

use std::time::Duration;

use crate::common::Side;
use am_api::{Clock, HandlerId, Incarnation, ManualClock, Node, Request, Transport};
use am_ring::Frame;
use am_transport::loopback::{self, Loopback};
use am_transport::{Caps, Command, PeerAddressError};
use am_wire::Address;

const TELL: HandlerId = HandlerId(0);
const TURN: Duration = Duration::from_micros(2);
const COUNT: u64 = 20_000;

/// A transport whose capabilities the test chooses, and which loses one frame in a given number.
struct Claims {
    inner: Loopback,
    caps: Caps,
    loses_every: u64,
    sent: u64,
}

impl Claims {
    fn new(inner: Loopback, reliable: bool, loses_every: u64) -> Claims {
        Claims { caps: Caps { reliable, ..inner.caps().clone() }, inner, loses_every, sent: 0 }
    }
}

impl Transport for Claims {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.inner.receive(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.sent += 1;
        self.sent.is_multiple_of(self.loses_every) || self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}

/// Send numbered messages from alpha to beta. Beta's state counts the arrivals of each number.
fn tell(hand: &ManualClock, alpha: &mut Side<()>, beta: &mut Side<Vec<u8>>, pause: Duration) {
    beta.state.resize(COUNT as usize, 0);
    beta.endpoint.on_request(TELL, |seen, Request { message, .. }| seen[message.word(0) as usize] += 1);
    let to = alpha.endpoint.connect("beta", "main").expect("asked");
    let mut number = 0;
    for turn in 0.. {
        alpha.poll();
        while number < COUNT
            && alpha.endpoint.is_open(to)
            && alpha.endpoint.try_request(to, TELL, &[number], b"").is_ok()
        {
            number += 1;
        }
        // Now and then the receiver is away for longer than any round trip.
        for _ in 0..if turn % 10 == 9 { pause.as_millis() } else { 0 } {
            hand.advance(Duration::from_millis(1));
            alpha.poll();
        }
        hand.advance(TURN);
        beta.poll();
        if turn % 16 == 0 && beta.state.iter().all(|&times| times > 0) {
            break;
        }
        assert!(turn < 1_000_000, "{number} sent\n{}{}", alpha.node.counters(), beta.node.counters());
    }
    assert!(beta.state.iter().all(|&times| times == 1), "each once");
}

fn sides(reliable: bool, loses_every: u64) -> (ManualClock, Side<()>, Side<Vec<u8>>) {
    let (clock, hand): (Clock, ManualClock) = Clock::manual();
    let [left, right] = loopback::pair().map(|plug| Claims::new(plug.open().expect("memory"), reliable, loses_every));
    let node = |name| Node::builder(name).coalesce(false).clock(clock.clone(), Incarnation(1));
    (hand, Side::open(node("alpha"), Box::new(left)), Side::open(node("beta"), Box::new(right)))
}

#[test]
fn acknowledgements_bring_credit_and_nothing_is_sent_twice() {
    let acks = [true, false].map(|reliable| {
        let (hand, mut alpha, mut beta) = sides(reliable, u64::MAX);
        tell(&hand, &mut alpha, &mut beta, Duration::from_millis(60));
        let sent_again = alpha.counter("retransmitted");
        assert_eq!(sent_again == 0, reliable, "reliable: {reliable}; {sent_again} sent again in vain");
        beta.counter("acks_sent")
    });
    assert!(acks[0] <= COUNT / 64 + 16 && acks[0] < acks[1], "{acks:?}");
}

#[test]
fn what_does_not_keep_its_word_loses_nothing_all_the_same() {
    let (hand, mut alpha, mut beta) = sides(true, 1000);
    tell(&hand, &mut alpha, &mut beta, Duration::from_millis(20));
    assert!(alpha.counter("retransmitted") > 0);
}

#[test]
fn a_link_that_reaches_everybody_needs_no_introduction() {
    let [mut left, _] = loopback::pair().map(|plug| plug.open().expect("memory"));
    assert!(matches!(left.control(Command::AddPeer("10.0.0.1:7000")), Err(PeerAddressError::Needless { .. })));
    left.poll_notices(&mut |notice| panic!("{notice:?}"));
}
