//! Small messages share frames where several wait; one that is alone has its own.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use am_api::{Connection, HandlerId, OwnedMessage, Request};

const NUMBER: HandlerId = HandlerId(1);
const ECHO: HandlerId = HandlerId(2);

/// What arrived.
#[derive(Default)]
struct Got {
    numbers: Vec<u64>,
}

fn listen(side: &mut Side<Got>) {
    side.endpoint.on_request(NUMBER, |got, Request { message, .. }| got.numbers.push(message.word(0)));
    side.endpoint.on_request(ECHO, |got, Request { message, token }| {
        got.numbers.push(message.word(0));
        token.reply(ECHO, message.words(), message.payload()).expect("a reply");
    });
    side.endpoint.on_reply(ECHO, |got, message| got.numbers.push(message.word(0)));
}

fn sides() -> (Side<Got>, Side<Got>, Connection) {
    let (mut alpha, mut beta, to) = connected();
    listen(&mut alpha);
    listen(&mut beta);
    (alpha, beta, to)
}

/// Frames with messages in them that have left so far.
fn frames(side: &Side<Got>) -> u64 {
    let messages: u64 = ["requests_sent", "replies_sent", "retransmitted"].map(|name| side.counter(name)).iter().sum();
    messages + side.counter("bundles_sent") - side.counter("bundled_sent")
}

fn hundred(alpha: &mut Side<Got>, beta: &mut Side<Got>, to: Connection) -> u64 {
    let before = frames(alpha);
    (0..100).for_each(|n| alpha.endpoint.try_request(to, NUMBER, &[n], b"small").expect("credit"));
    until(alpha, beta, "all are there", |_, beta| beta.state.numbers.len() == 100);
    assert_eq!(beta.state.numbers, (0..100).collect::<Vec<_>>());
    frames(alpha) - before
}

#[test]
fn a_hundred_that_wait_share_frames() {
    let (mut alpha, mut beta, to) = sides();
    assert_eq!(hundred(&mut alpha, &mut beta, to), 2);
}

#[test]
fn prepared_ones_share_frames_too() {
    let (mut alpha, mut beta, to) = sides();
    let before = frames(&alpha);
    for n in 0..100 {
        let mut request = alpha.endpoint.prepare(to, NUMBER, &[n], 5, 5).expect("a frame");
        request.write_all(b"small").expect("room");
        request.commit(5).map_err(|(error, _)| error).expect("credit");
    }
    until(&mut alpha, &mut beta, "all are there", |_, beta| beta.state.numbers.len() == 100);
    assert_eq!(beta.state.numbers, (0..100).collect::<Vec<_>>());
    assert_eq!(frames(&alpha) - before, 2);
}

#[test]
fn switched_off_they_do_not() {
    let (mut alpha, mut beta) = nodes(plain("alpha").coalesce(false), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    listen(&mut beta);
    assert!(hundred(&mut alpha, &mut beta, to) >= 100);
}

#[test]
fn their_answers_share_frames_too() {
    let (mut alpha, mut beta, to) = sides();
    let before = frames(&beta);
    (0..100).for_each(|n| alpha.endpoint.try_request(to, ECHO, &[n], b"small").expect("credit"));
    until(&mut alpha, &mut beta, "all are back", |alpha, _| alpha.state.numbers.len() == 100);
    assert_eq!(alpha.state.numbers, (0..100).collect::<Vec<_>>());
    let sent = frames(&beta) - before;
    assert!(sent <= 4, "{sent} frames");
}

#[test]
fn an_idle_sender_has_a_frame_for_each() {
    let (mut alpha, mut beta, to) = sides();
    let before = [frames(&alpha), frames(&beta)];
    for n in 0..100 {
        alpha.endpoint.try_request(to, ECHO, &[n], b"small").expect("credit");
        // One turn of each is all it takes: nothing waits for company. (A kernel in between has its own time.)
        let start = Instant::now();
        while alpha.state.numbers.last() != Some(&n) {
            alpha.poll();
            beta.poll();
            alpha.poll();
            let may_wait = std::env::var(crate::common::OVER).is_ok() && start.elapsed() < LONG;
            assert!(may_wait || alpha.state.numbers.last() == Some(&n), "{n} is not back");
        }
    }
    let bundles = alpha.counter("bundles_sent") + beta.counter("bundles_sent");
    assert_eq!((frames(&alpha) - before[0], frames(&beta) - before[1], bundles), (100, 100, 0));
}

/// All that credit allows, from this number on. Returns the number behind them.
fn fill(alpha: &mut Side<Got>, to: Connection, from: u64) -> u64 {
    let mut next = from;
    while alpha.endpoint.try_request(to, NUMBER, &[next], &next.to_be_bytes()).is_ok() {
        next += 1;
    }
    next
}

#[test]
fn a_handler_that_panics_takes_nothing_from_the_others_of_its_frame() {
    let (mut alpha, mut beta, to) = sides();
    beta.endpoint.on_request(NUMBER, |got, Request { message, .. }| {
        got.numbers.push(message.word(0));
        assert_ne!(message.word(0) % 10, 3, "planned to panic");
    });
    let mut sent = 0;
    // More often than there is credit for, if a panic kept some.
    for _ in 0..20 {
        sent = fill(&mut alpha, to, sent);
        let start = Instant::now();
        while (beta.state.numbers.len() as u64) < sent || !alpha.endpoint.is_accepted(to) {
            assert!(start.elapsed() < LONG, "{} of {sent}", beta.state.numbers.len());
            _ = catch_unwind(AssertUnwindSafe(|| beta.poll()));
            alpha.poll();
        }
    }
    assert!(sent > 20 * 50, "{sent}");
    assert_eq!(beta.state.numbers, (0..sent).collect::<Vec<_>>());
}

#[test]
fn some_of_a_frame_can_be_kept() {
    let (mut alpha, mut beta) = nodes::<Got, (Vec<u64>, Vec<OwnedMessage>)>(plain("alpha"), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    beta.endpoint.on_request(NUMBER, |(seen, kept), Request { message, .. }| {
        seen.push(message.word(0));
        if message.word(0) % 3 == 1 {
            kept.push(message.keep());
        }
    });
    let (mut sent, mut read) = (0, 0);
    for _ in 0..20 {
        sent = fill(&mut alpha, to, sent);
        until(&mut alpha, &mut beta, "all have been handled", |alpha, beta| {
            beta.state.0.len() as u64 == sent && alpha.endpoint.is_accepted(to)
        });
        // The last ones first, so that one of its middle is the last to hold a frame.
        while let Some(message) = beta.state.1.pop() {
            assert_eq!(message[..], message.word(0).to_be_bytes());
            read += 1;
        }
    }
    assert_eq!(beta.state.0, (0..sent).collect::<Vec<_>>());
    assert_eq!((read, sent > 20 * 10), ((sent + 1) / 3, true), "{sent}");
}
