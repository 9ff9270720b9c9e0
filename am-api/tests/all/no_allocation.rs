//! No allocation per message after set-up, whatever way messages take.

use std::time::Instant;

use crate::common::{LONG, Side, connect, plain};
use am_api::{Connection, HandlerId, Request, Token};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

const ONE_WAY: HandlerId = HandlerId(0);
const ECHO: HandlerId = HandlerId(1);
const LATER: HandlerId = HandlerId(2);

#[derive(Default)]
struct Asked {
    handled: u64,
    kept: Vec<Token>,
}

/// Two sides whose handlers do all that handlers may do, connected over a wire
/// on which so much goes wrong.
fn sides_over(faults: Faults) -> (Side<u64>, Side<Asked>, Connection) {
    let [left, right] = loopback::pair().map(|plug| Faulty::new(plug.open().expect("memory"), faults));
    let mut alpha = Side::<u64>::open(plain("alpha"), Box::new(left));
    let mut beta = Side::<Asked>::open(plain("beta"), Box::new(right));
    beta.endpoint.on_request(ONE_WAY, |asked, _| asked.handled += 1);
    beta.endpoint.on_request(ECHO, |asked, Request { message: request, token }| {
        asked.handled += 1;
        token.reply(ECHO, request.words(), request.payload()).expect("a reply");
    });
    beta.endpoint.on_request(LATER, |asked, Request { token, .. }| {
        asked.handled += 1;
        asked.kept.push(token);
    });
    alpha.endpoint.on_reply(ECHO, |replies, _| *replies += 1);
    beta.state.kept.reserve(1024);
    let to = connect(&mut alpha, &mut beta);
    (alpha, beta, to)
}

fn sides() -> (Side<u64>, Side<Asked>, Connection) {
    sides_over(Faults::NONE)
}

/// Keep the window full until this number is handled.
fn stream(
    alpha: &mut Side<u64>,
    beta: &mut Side<Asked>,
    to: Connection,
    handler: HandlerId,
    payload: &[u8],
    count: u64,
) {
    let end = beta.state.handled + count;
    let mut left = count;
    let start = Instant::now();
    while beta.state.handled < end {
        while left > 0 && alpha.endpoint.try_request(to, handler, &[left, 2], payload).is_ok() {
            left -= 1;
        }
        alpha.poll();
        beta.poll();
        assert!(start.elapsed() < LONG, "{left} not sent\n{}{}", alpha.node.counters(), beta.node.counters());
        beta.state.kept.drain(..).for_each(|token| token.reply(ECHO, &[], payload).expect("a reply"));
    }
}

fn allocations_of(handler: HandlerId, payload: &[u8], faults: Faults) -> u64 {
    const COUNT: u64 = 100_000;
    let (mut alpha, mut beta, to) = sides_over(faults);
    // Queues grow to the size that they stay at.
    stream(&mut alpha, &mut beta, to, handler, payload, 10_000);
    let counted = allocation_counter::measure(|| stream(&mut alpha, &mut beta, to, handler, payload, COUNT));
    assert_eq!(alpha.counter("bundles_sent") > 0, payload.len() < 512, "small ones share frames");
    counted.count_total
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn requests_allocate_nothing() {
    for size in [0, 16, 1400] {
        assert_eq!(allocations_of(ONE_WAY, &vec![1; size], Faults::NONE), 0, "{size} bytes");
    }
}

#[test]
fn replies_allocate_nothing() {
    for size in [0, 16, 1400] {
        assert_eq!(allocations_of(ECHO, &vec![1; size], Faults::NONE), 0, "{size} bytes");
    }
}

#[test]
fn kept_tokens_allocate_nothing() {
    assert_eq!(allocations_of(LATER, b"later", Faults::NONE), 0);
}

#[test]
fn one_at_a_time_allocates_nothing() {
    let (mut alpha, mut beta, to) = sides();
    let mut ping = |count| (0..count).for_each(|_| stream(&mut alpha, &mut beta, to, ECHO, b"ping", 1));
    ping(1_000);
    assert_eq!(allocation_counter::measure(|| ping(10_000)).count_total, 0);
}

#[test]
fn repairs_allocate_nothing() {
    assert_eq!(allocations_of(ECHO, b"sent again", Faults::lossy(3, 0.02)), 0);
}
