//! A call has one outcome: its answer, its return, the end of its connection, or that its time is over.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use am_api::{
    CallError, CallId, Clock, Connection, Fate, HandlerId, Incarnation, ReplyError, Request, RequestError,
    ReturnReason, Token,
};
use am_transport::loopback::{self, LoopbackOptions};

const ASK: HandlerId = HandlerId(3);
const SOON: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Answered(u64),
    Returned(ReturnReason, Fate),
    Ended(ReturnReason),
    TimedOut,
}

type Outcomes = Vec<(CallId, Outcome)>;

/// What was asked: its id, and a number.
type Kept = Vec<(Token, u64, u64)>;
type Sides = (Side<Outcomes>, Side<Kept>, Connection);

/// Beta keeps what it is asked.
fn keeping() -> Sides {
    listening(connected())
}

fn listening((mut alpha, mut beta, to): Sides) -> Sides {
    beta.endpoint.on_request(ASK, |kept, Request { message: request, token }| {
        assert_eq!((request.words().len(), request.payload()), (2, &b"how many?"[..]));
        kept.push((token, request.word(0), request.word(1)));
    });
    alpha.endpoint.on_returned(|_, back| panic!("{back:?} has an outcome"));
    alpha.endpoint.on_outcome(ASK, move |all, outcome| {
        assert_eq!((outcome.to, outcome.handler, outcome.endpoint.name()), (to, ASK, "main"));
        let what = match outcome.result {
            Ok(answer) => Outcome::Answered(answer.word(1)),
            Err(CallError::Returned(back)) => Outcome::Returned(back.reason, back.fate),
            Err(CallError::Ended(reason)) => Outcome::Ended(reason),
            Err(CallError::TimedOut) => Outcome::TimedOut,
        };
        all.push((outcome.id, what));
    });
    (alpha, beta, to)
}

fn ask(alpha: &Side<Outcomes>, to: Connection, number: u64, within: Duration) -> CallId {
    alpha.endpoint.try_call(to, ASK, &[number], b"how many?", within).unwrap()
}

fn answer(beta: &mut Side<Kept>) {
    beta.state.drain(..).for_each(|(token, id, number)| token.reply(ASK, &[id, number * 2], b"").unwrap());
}

#[test]
fn what_is_answered_in_time_is_not_late() {
    let (mut alpha, mut beta, to) = keeping();
    let within = 20 * SOON;
    let start = Instant::now();
    let ids: Vec<CallId> = (0..50).map(|number| ask(&alpha, to, number, within)).collect();
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 50);
    answer(&mut beta);
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state.len() == 50);
    until(&mut alpha, &mut beta, "the time over", |_, _| start.elapsed() > within + SOON);
    let answered = |(number, id): (u64, CallId)| (id, Outcome::Answered(number * 2));
    assert_eq!(alpha.state, (0..50).zip(ids).map(answered).collect::<Outcomes>());
    assert_eq!(alpha.counter("late_answers"), 0);
}

#[test]
fn what_is_not_answered_in_time_is_late_once_and_its_answer_is_dropped() {
    let (mut alpha, mut beta, to) = keeping();
    let start = Instant::now();
    let (second, first) = (ask(&alpha, to, 1, 2 * SOON), ask(&alpha, to, 2, SOON));
    until(&mut alpha, &mut beta, "the first is late", |alpha, _| !alpha.state.is_empty());
    assert!(start.elapsed() >= SOON);
    until(&mut alpha, &mut beta, "the second is late", |alpha, _| alpha.state.len() == 2);
    assert!(start.elapsed() >= 2 * SOON);
    answer(&mut beta);
    until(&mut alpha, &mut beta, "dropped", |alpha, _| alpha.counter("late_answers") == 2);
    assert_eq!(alpha.state, [(first, Outcome::TimedOut), (second, Outcome::TimedOut)]);
}

/// An endpoint that sleeps wakes up in time, though nothing arrives.
#[test]
fn who_waits_hears_of_it_in_time() {
    let (mut alpha, mut beta, to) = keeping();
    let id = ask(&alpha, to, 1, SOON);
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 1);
    let start = Instant::now();
    assert!(alpha.endpoint.wait_until(&mut alpha.state, LONG, |all| !all.is_empty()));
    assert_eq!(alpha.state, [(id, Outcome::TimedOut)]);
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn what_comes_back_is_not_late() {
    let (mut alpha, beta, to) = keeping();
    let ids = [1, 2].map(|number| ask(&alpha, to, number, SOON));
    drop(beta);
    let start = Instant::now();
    while start.elapsed() < 3 * SOON {
        alpha.poll();
    }
    let back = Outcome::Returned(ReturnReason::Closed, Fate::NotDelivered);
    assert_eq!(alpha.state, ids.map(|id| (id, back)));
}

/// Received, and not answered: the end of the connection is the outcome, long before the deadline.
#[test]
fn what_a_peer_that_leaves_did_not_answer_has_ended() {
    let (mut alpha, mut beta, to) = keeping();
    let ids = [1, 2].map(|number| ask(&alpha, to, number, LONG));
    until(&mut alpha, &mut beta, "received", |alpha, beta| beta.state.len() == 2 && alpha.endpoint.is_accepted(to));
    drop(beta);
    let start = Instant::now();
    alpha.endpoint.wait_until(&mut alpha.state, LONG, |all| all.len() == 2);
    alpha.state.sort_by_key(|(id, _)| *id);
    assert_eq!(alpha.state, ids.map(|id| (id, Outcome::Ended(ReturnReason::Closed))));
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn what_is_under_way_on_a_connection_that_this_side_closes_has_an_outcome() {
    let (mut alpha, mut beta, to) = keeping();
    let first = ask(&alpha, to, 1, LONG);
    until(&mut alpha, &mut beta, "received", |alpha, beta| beta.state.len() == 1 && alpha.endpoint.is_accepted(to));
    let second = ask(&alpha, to, 2, LONG);
    alpha.endpoint.close(to);
    let start = Instant::now();
    until(&mut alpha, &mut beta, "both are reported", |alpha, _| alpha.state.len() == 2);
    let of = |id| alpha.state.iter().find(|(each, _)| *each == id).map(|(_, outcome)| *outcome);
    assert_eq!(of(first), Some(Outcome::Ended(ReturnReason::Closed)));
    assert!(matches!(of(second), Some(Outcome::Returned(..) | Outcome::Ended(_))), "{:?}", alpha.state);
    assert!(start.elapsed() < LONG / 2);
}

/// The token repeats the id and the handler, also after the message was released.
#[test]
fn a_token_answers_its_call() {
    let (mut alpha, mut beta, to) = keeping();
    let ids: Vec<CallId> = (0..5).map(|number| ask(&alpha, to, number, LONG)).collect();
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 5);
    for (token, id, number) in beta.state.drain(..).rev() {
        assert_eq!((token.handler(), token.call_id()), (ASK, CallId(id)));
        token.answer(&[number + 7, 0, 0], b"").expect("it waits");
    }
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state.len() == 5);
    let answered = (0..5).rev().map(|at| (ids[at], Outcome::Answered(at as u64 + 7)));
    assert_eq!(alpha.state, answered.collect::<Outcomes>());

    ask(&alpha, to, 9, SOON);
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 1);
    let (token, ..) = beta.state.remove(0);
    assert_eq!(token.answer(&[0; 4], b""), Err(ReplyError::TooManyWords { count: 4, most: 3 }));
}

/// An answer says whose it is; a peer may say anything.
#[test]
fn an_answer_of_another_is_none() {
    let (mut alpha, mut beta, to) = keeping();
    let other = alpha.endpoint.connect("beta", "main").unwrap();
    until(&mut alpha, &mut beta, "open", |alpha, _| alpha.endpoint.is_open(other));
    let (mine, others) = (ask(&alpha, to, 1, LONG), ask(&alpha, other, 2, LONG));
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 2);
    for (token, _, number) in beta.state.drain(..) {
        let wrong = if number == 1 { others } else { mine };
        token.reply(ASK, &[wrong.0, 0], b"").unwrap();
    }
    until(&mut alpha, &mut beta, "dropped", |alpha, _| alpha.counter("late_answers") == 2);
    assert_eq!(alpha.state, []);
}

#[test]
fn what_could_not_be_sent_has_no_outcome() {
    let (mut alpha, mut beta) = nodes(plain("alpha").window(4), plain("beta").window(4));
    let to = connect(&mut alpha, &mut beta);
    let (mut alpha, mut beta, to) = listening((alpha, beta, to));
    let too_many = alpha.endpoint.try_call(to, ASK, &[0; 4], b"", SOON);
    assert_eq!(too_many, Err(RequestError::TooManyWords { count: 4, most: 3 }));
    let mut asked = 0;
    let error = loop {
        match alpha.endpoint.try_call(to, ASK, &[1], b"how many?", SOON) {
            Ok(_) => asked += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, RequestError::NoCredit);
    let start = Instant::now();
    until(&mut alpha, &mut beta, "the time over", |_, _| start.elapsed() > 2 * SOON);
    assert_eq!((alpha.state.len(), asked > 0), (asked, true));
}

/// Asked and answered again and again: nothing grows.
#[test]
fn no_request_allocates() {
    let (mut alpha, mut beta, to) = keeping();
    alpha.state.reserve(1000);
    beta.state.reserve(1000);
    let mut round = || {
        (0..20).for_each(|number| _ = ask(&alpha, to, number, LONG));
        while alpha.state.len() < 20 {
            _ = (alpha.poll(), beta.poll());
            answer(&mut beta);
        }
        alpha.state.clear();
    };
    (0..100).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..1000).for_each(|_| round()));
    assert_eq!(counted.count_total, 0);
}

/// Two endpoints of a node that finds nothing: a turn of the one says nothing about the calls of the other.
#[test]
fn a_turn_at_rest_notices_the_deadline_of_its_own_endpoint() {
    let (clock, hand) = Clock::manual();
    let mut ends = loopback::wire_with(2, LoopbackOptions::default());
    let mut open = |name| {
        let end = ends.pop().expect("an end").open().expect("memory");
        (plain(name).clock(clock.clone(), Incarnation(1)), Box::new(end))
    };
    let ((alpha, here), (beta, there)) = (open("alpha"), open("beta"));
    let (mut alpha, mut beta) = (Side::<Outcomes>::open(alpha, here), Side::<Vec<Token>>::open(beta, there));
    beta.endpoint.on_request(ASK, |kept, Request { token, .. }| kept.push(token));
    let mut other = alpha.node.endpoint::<Outcomes>("other").unwrap();
    other.on_outcome(ASK, |all, outcome| {
        assert!(matches!(outcome.result, Err(CallError::TimedOut)), "{:?}", outcome.result);
        all.push((outcome.id, Outcome::TimedOut));
    });
    let to = other.connect("beta", "main").unwrap();
    let mut late = Outcomes::new();
    while !other.is_open(to) {
        alpha.poll();
        other.poll(&mut late);
        beta.poll();
        hand.advance(Duration::from_micros(5));
    }
    // Beta gets it, and its acknowledgement is back, so no timer is due for a while.
    let within = Duration::from_micros(400);
    let id = other.try_call(to, ASK, &[], b"", within).unwrap();
    for _ in 0..30 {
        alpha.poll();
        other.poll(&mut late);
        beta.poll();
        hand.advance(Duration::from_micros(10));
    }
    assert_eq!(late, [], "not yet");
    for _ in 0..10 {
        alpha.poll();
        other.poll(&mut late);
    }
    hand.advance(Duration::from_micros(101));
    alpha.poll();
    other.poll(&mut late);
    assert_eq!(late, [(id, Outcome::TimedOut)]);
}
