//! Credits: what a sender may send, and how it gets to send more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use am_api::{BUDGET, HandlerId, Request, RequestError};

const COUNT: HandlerId = HandlerId(0);

fn count(side: &mut Side<u64>) {
    side.endpoint.on_request(COUNT, |count, _| *count += 1);
}

#[test]
fn a_full_window_says_so_and_opens_again() {
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta").window(8));
    count(&mut beta);
    let to = connect(&mut alpha, &mut beta);
    assert_eq!(alpha.endpoint.credit(to), 8);
    (0..8).for_each(|_| alpha.endpoint.try_request(to, COUNT, &[], b"").expect("credit"));
    assert_eq!(alpha.endpoint.credit(to), 0);
    assert_eq!(alpha.endpoint.try_request(to, COUNT, &[], b""), Err(RequestError::NoCredit));
    until(&mut alpha, &mut beta, "open again", |alpha, _| alpha.endpoint.credit(to) == 8);
    assert_eq!(alpha.endpoint.try_request(to, COUNT, &[], b""), Ok(()));
    until(&mut alpha, &mut beta, "all handled", |_, beta| beta.state == 9);
}

#[test]
fn a_receiver_that_does_not_handle_holds_its_sender_back() {
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta").window(8));
    count(&mut beta);
    let to = connect(&mut alpha, &mut beta);
    // Another endpoint of beta is polled, so that frames come in and are
    // acknowledged; but nothing is taken out for the one that is meant.
    let mut other = beta.node.endpoint::<()>("other").unwrap();
    let mut sent = 0;
    for _ in 0..1000 {
        sent += alpha.endpoint.try_request(to, COUNT, &[], b"").is_ok() as u64;
        alpha.poll();
        other.poll(&mut ());
    }
    assert_eq!((sent, beta.state), (8, 0));
    until(&mut alpha, &mut beta, "handled at last", |_, beta| beta.state == 8);
    until(&mut alpha, &mut beta, "credit again", |alpha, _| alpha.endpoint.credit(to) == 8);
}

/// Also over wires that lose, double and delay frames, and where the window is full again and again.
#[test]
fn requests_are_handled_in_order_and_so_are_replies() {
    const REQUESTS: u64 = 5000;
    let (mut alpha, mut beta) = nodes::<Vec<u64>, Vec<u64>>(plain("alpha"), plain("beta").window(32));
    beta.endpoint.on_request(COUNT, |seen, Request { message: request, token }| {
        seen.push(request.word(0));
        token.reply(COUNT, request.words(), request.payload()).expect("a reply");
    });
    alpha.endpoint.on_reply(COUNT, |seen, reply| seen.push(reply.word(0)));
    let to = connect(&mut alpha, &mut beta);
    let mut next = 0;
    until(&mut alpha, &mut beta, "all answered", |alpha, _| {
        while next < REQUESTS && alpha.endpoint.try_request(to, COUNT, &[next], &[7; 90][..next as usize % 90]).is_ok()
        {
            next += 1;
        }
        alpha.state.len() as u64 == REQUESTS
    });
    assert!(beta.state.iter().copied().eq(0..REQUESTS) && alpha.state.iter().copied().eq(0..REQUESTS));
}

#[test]
fn a_poll_is_bounded_however_much_has_arrived() {
    let (mut alpha, mut beta, to) = connected::<(), u64>();
    count(&mut beta);
    let mut other = beta.node.endpoint::<()>("other").unwrap();
    (0..100).for_each(|_| alpha.endpoint.try_request(to, COUNT, &[], b"").expect("credit"));
    (0..1000).for_each(|_| {
        alpha.poll();
        other.poll(&mut ());
    });
    assert_eq!(beta.poll(), BUDGET);
    assert_eq!(beta.state, BUDGET as u64);
    until(&mut alpha, &mut beta, "all handled", |_, beta| beta.state == 100);
}

#[test]
fn waiting_ends_with_a_message_or_with_its_time() {
    let (mut alpha, mut beta, to) = connected::<(), u64>();
    count(&mut beta);
    assert_eq!(beta.endpoint.wait(&mut beta.state, Duration::from_millis(2)), 0);
    alpha.endpoint.try_request(to, COUNT, &[], b"").unwrap();
    alpha.endpoint.flush();
    // What a bad wire loses is sent again by who is polled.
    let has_come = (0..30).any(|_| {
        alpha.poll();
        beta.endpoint.wait(&mut beta.state, LONG / 30) == 1
    });
    assert!(has_come);
    assert!(!beta.endpoint.wait_until(&mut beta.state, Duration::from_millis(2), |count| *count == 2));
    assert!(beta.endpoint.wait_until(&mut beta.state, Duration::ZERO, |count| *count == 1));
}

#[test]
fn a_handler_that_panics_costs_no_credit() {
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta").window(2));
    beta.endpoint.on_request(COUNT, |count, Request { message: request, .. }| {
        *count += 1;
        assert_eq!(request.word(0) % 2, 0, "odd: planned to panic");
    });
    let to = connect(&mut alpha, &mut beta);
    for number in 0..10 {
        until(&mut alpha, &mut beta, "credit", |alpha, _| alpha.endpoint.credit(to) == 2);
        alpha.endpoint.try_request(to, COUNT, &[number], b"").unwrap();
        alpha.endpoint.flush();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            while beta.poll() == 0 {
                // On a bad wire it may have to be sent again.
                alpha.poll();
            }
        }));
        assert_eq!(polled.is_err(), number % 2 == 1);
    }
    assert_eq!(beta.state, 10);
}
