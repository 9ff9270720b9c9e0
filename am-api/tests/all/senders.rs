//! A sender does what its endpoint does, from anywhere on the node's thread; and payloads that the program writes into the frame.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{LONG, connected, until};
use am_api::{CallId, ConnectError, Connection, HandlerId, Message, Request, RequestError, Sender};

const ASK: HandlerId = HandlerId(3);

/// Its calls have their outcomes at the endpoint, also those that it sends while a handler of the endpoint runs.
#[test]
fn a_sender_calls_while_a_handler_runs() {
    let (mut alpha, mut beta, to) = connected::<Vec<(CallId, u64)>, ()>();
    beta.endpoint.on_request(ASK, |(), Request { message, token }| token.answer(&[2 * message.word(1)], b"").unwrap());
    let sender = alpha.endpoint.sender();
    let call = move |sender: &Sender, number| sender.try_call(to, ASK, &[number], b"", LONG).unwrap();
    let first = call(&sender, 1);
    let second = Rc::new(RefCell::new(None));
    let kept = second.clone();
    alpha.endpoint.on_outcome(ASK, move |all, outcome| {
        all.push((outcome.id, outcome.result.unwrap().word(1)));
        // The endpoint is in use here.
        if all.len() == 1 {
            *kept.borrow_mut() = Some(call(&sender, 5));
        }
    });
    until(&mut alpha, &mut beta, "both answered", |alpha, _| alpha.state.len() == 2);
    assert_eq!(alpha.state, [(first, 2), (second.borrow().unwrap(), 10)]);
}

#[test]
fn a_sender_outlives_its_endpoint() {
    let (alpha, _beta, to) = connected::<(), ()>();
    let sender = alpha.endpoint.sender();
    assert_eq!((sender.name(), sender.try_request(to, ASK, &[], b"")), ("main", Ok(())));
    // The view of a sender is no endpoint: its drop closes nothing.
    drop(alpha.endpoint.sender());
    assert_eq!(sender.try_request(to, ASK, &[], b""), Ok(()));
    drop(alpha.endpoint);
    assert_eq!(sender.try_request(to, ASK, &[], b""), Err(RequestError::Closed));
    assert_eq!(sender.connect("beta", "main"), Err(ConnectError::Closed));
}

#[test]
fn calls_that_wait_have_different_slots() {
    let (mut alpha, mut beta, to) = connected::<Vec<CallId>, ()>();
    beta.endpoint.on_request(ASK, |(), Request { token, .. }| token.answer(&[], b"").unwrap());
    alpha.endpoint.on_outcome(ASK, |all, outcome| all.push(outcome.id));
    for _ in 0..3 {
        let ids: Vec<CallId> = (0..8).map(|_| alpha.endpoint.try_call(to, ASK, &[], b"", LONG).unwrap()).collect();
        let mut slots: Vec<usize> = ids.iter().map(|id| id.slot()).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..8).collect::<Vec<_>>());
        until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state.len() == 8);
        alpha.state.clear();
    }
}

/// Bytes that the function leaves are zeros, whatever was in the frame before; in one frame and in several, there and back.
#[test]
fn a_payload_is_written_into_the_frame() {
    type Payloads = Vec<Vec<u8>>;
    let (mut alpha, mut beta, to): (_, _, Connection) = connected::<Payloads, ()>();
    let write = |place: &mut [u8]| {
        let half = place.len() / 2;
        place[..half].fill(0x5a);
        half
    };
    beta.endpoint.on_request(ASK, move |(), Request { message, token }| {
        assert!(is_half(&message), "{message:?}");
        token.answer_with(&[9], message.payload().len(), write).unwrap();
    });
    alpha.endpoint.on_outcome(ASK, |all, outcome| {
        let answer = outcome.result.unwrap();
        assert!(answer.word(1) == 9 && is_half(&answer), "{answer:?}");
        all.push(answer.payload().to_vec());
    });
    let in_frame = alpha.endpoint.frame_payload(to, 1).unwrap();
    let lengths = [0, 1, 8, 47, 200, in_frame, in_frame + 1, 70_000];
    for length in lengths.into_iter().chain(lengths) {
        alpha.endpoint.try_call_with(to, ASK, &[], length, write, LONG).unwrap();
        until(&mut alpha, &mut beta, "answered", |alpha, _| !alpha.state.is_empty());
        assert_eq!(alpha.state.pop().unwrap().len(), length);
    }
    alpha.endpoint.try_request_with(to, HandlerId(0), &[], 1 << 30, |_| unreachable!()).unwrap_err();
}

fn is_half<S>(message: &Message<'_, S>) -> bool {
    let (written, rest) = message.payload().split_at(message.payload().len() / 2);
    written.iter().all(|byte| *byte == 0x5a) && rest.iter().all(|byte| *byte == 0)
}

#[test]
fn the_time_of_a_turn_is_when_it_began() {
    let (mut alpha, mut beta, to) = connected::<(), Vec<Duration>>();
    beta.endpoint.on_request(ASK, |times, Request { message, .. }| {
        std::thread::sleep(Duration::from_millis(3));
        times.push(message.endpoint().time() - message.endpoint().turn_time());
    });
    (0..2).for_each(|_| alpha.endpoint.try_request(to, ASK, &[], b"").unwrap());
    alpha.endpoint.flush();
    until(&mut alpha, &mut beta, "handled", |_, beta| beta.state.len() == 2);
    assert!(beta.state.iter().all(|time| *time >= Duration::from_millis(3)), "{:?}", beta.state);
}
