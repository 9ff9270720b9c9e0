//! How long a wait takes, and what time does to those who poll rarely.

use std::time::{Duration, Instant};

use crate::common::{Side, connect, nodes, pair, plain, until};
use am_api::{Builder, Clock, Framing, HandlerId, Idle, Incarnation, ManualClock, Node};

const TELL: HandlerId = HandlerId(0);
const MS: Duration = Duration::from_millis(1);

/// Two nodes on one clock that is moved by hand, connected.
fn by_hand() -> (Side<()>, Side<u64>, am_api::Connection, ManualClock) {
    by_hand_with(|builder| builder)
}

fn by_hand_with(settings: impl Fn(Builder) -> Builder) -> (Side<()>, Side<u64>, am_api::Connection, ManualClock) {
    let (clock, hand) = Clock::manual();
    let node = |name| -> Builder {
        let builder = Node::builder(name).framing(Framing::Plain).idle(Idle::spinning());
        settings(builder.clock(clock.clone(), Incarnation(1)))
    };
    let (left, right) = pair();
    let (mut alpha, mut beta) = (Side::<()>::open(node("alpha"), left), Side::<u64>::open(node("beta"), right));
    beta.endpoint.on_request(TELL, |count, _| *count += 1);
    let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    until(&mut alpha, &mut beta, "connected", |alpha, _| {
        hand.advance(MS / 10);
        alpha.endpoint.is_open(to)
    });
    (alpha, beta, to, hand)
}

#[test]
fn a_flood_does_not_keep_a_wait_from_ending() {
    let (mut alpha, mut beta, to, hand) = by_hand();
    let mut turns = 0;
    let found = beta.endpoint.wait_until(&mut beta.state, 10 * MS, |_| {
        turns += 1;
        assert!(turns < 1000, "still waiting after {turns} ms");
        hand.advance(MS);
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
        alpha.poll();
        false
    });
    assert!(!found && turns >= 10, "{turns}");
}

#[test]
fn a_wait_after_a_pause_is_as_long_as_the_first() {
    let (_alpha, mut beta, _, hand) = by_hand();
    for pause in [0, 1, 20, 3000] {
        hand.advance(pause * MS);
        let mut turns = 0;
        beta.endpoint.wait_until(&mut beta.state, 100 * MS, |_| {
            hand.advance(MS);
            turns += 1;
            turns > 1000
        });
        assert!((100..120).contains(&turns), "{turns} ms after a pause of {pause} ms");
    }
}

#[test]
fn an_acknowledgement_waits_as_long_as_it_is_set_to() {
    for (delay, least, most) in
        [(None, MS / 20, MS / 5), (Some(2 * MS), 2 * MS, 5 * MS), (Some(MS * 1000), 10 * MS, 21 * MS)]
    {
        let set = |builder: Builder| match delay {
            Some(delay) => builder.ack_delay(delay),
            None => builder,
        };
        let (mut alpha, mut beta, to, hand) = by_hand_with(set);
        // What opened the connection is acknowledged, too.
        for _ in 0..1000 {
            hand.advance(MS / 10);
            alpha.poll();
            beta.poll();
        }
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
        alpha.poll();
        let (before, mut waited) = (beta.counter("acks_sent"), Duration::ZERO);
        while beta.counter("acks_sent") == before {
            hand.advance(MS / 100);
            waited += MS / 100;
            beta.poll();
            assert!(waited <= most, "{delay:?}: {waited:?}");
        }
        assert!(waited >= least && beta.state == 1, "{delay:?}: {waited:?}");
    }
}

#[test]
fn a_sleeper_neither_oversleeps_nor_comes_early() {
    let (_alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta").idle(Idle::sleeping()));
    for wait in [Duration::ZERO, MS / 1000, 10 * MS, 10 * MS] {
        let mut waited = || {
            let start = Instant::now();
            assert_eq!(beta.endpoint.wait(&mut beta.state, wait), 0);
            assert!(start.elapsed() >= wait, "{:?} of {wait:?}", start.elapsed());
            start.elapsed()
        };
        // Now and then it is the processors that have no time.
        assert!((0..10).any(|_| waited() < wait + 500 * MS), "never within half a second of {wait:?}");
        std::thread::sleep(20 * MS);
    }
}

#[test]
fn who_polls_once_a_millisecond_is_told_nothing_three_times() {
    let (mut alpha, mut beta, to, hand) = by_hand();
    let mut rounds = |count: u64| {
        let before = alpha.counter("retransmitted");
        for _ in 0..count {
            alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
            for _ in 0..8 {
                hand.advance(MS / 8);
                alpha.poll();
            }
            beta.poll();
        }
        alpha.counter("retransmitted") - before
    };
    rounds(100);
    assert!(rounds(1000) <= 1000);
    assert!(beta.state >= 1099);
}

#[test]
fn two_endpoints_polled_in_turn_get_what_is_theirs() {
    let (mut alpha, mut beta, to, hand) = by_hand();
    let mut other = beta.node.endpoint::<u64>("other").expect("an endpoint");
    other.on_request(TELL, |count, _| *count += 1);
    let second = alpha.endpoint.connect("beta", "other").expect("a connection asked for");
    until(&mut alpha, &mut beta, "connected", |alpha, _| {
        hand.advance(MS / 10);
        alpha.endpoint.is_open(second)
    });
    let mut seen = 0;
    for _ in 0..1000 {
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
        alpha.endpoint.try_request(second, TELL, &[], b"").expect("credit");
        alpha.poll();
        for _ in 0..2 {
            hand.advance(MS / 100);
            beta.poll();
            other.poll(&mut seen);
            alpha.poll();
        }
    }
    assert_eq!((beta.state, seen), (1000, 1000));
    assert_eq!(alpha.counter("retransmitted"), 0);
}

#[test]
fn a_waiter_is_woken_by_what_arrives() {
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta").idle(Idle::sleeping()));
    beta.endpoint.on_request(TELL, |count, _| *count += 1);
    let to = connect(&mut alpha, &mut beta);
    for count in 1..20 {
        alpha.endpoint.try_request(to, TELL, &[], b"").expect("credit");
        alpha.endpoint.flush();
        assert_eq!(beta.endpoint.wait(&mut beta.state, crate::common::LONG), 1);
        assert_eq!(beta.state, count);
        until(&mut alpha, &mut beta, "credit", |alpha, _| alpha.endpoint.credit(to) > 8);
    }
}
