//! Messages that are longer than a frame arrive as one, once, in order with the others of their connection, or return.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Side, connect, nodes, plain, until};
use am_api::{Connection, ConnectionChange, Fate, HandlerId, OwnedMessage, Request, RequestError, ReturnReason};

pub(crate) const ECHO: HandlerId = HandlerId(2);
pub(crate) const KEEP: HandlerId = HandlerId(3);
pub(crate) const MOST: usize = 1 << 20;

/// Bytes that depend on where they are.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// What a side has got: the words, and whether the payload is the pattern of the first word.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<(Vec<u64>, usize)>,
    pub(crate) answered: Vec<(Vec<u64>, usize)>,
    pub(crate) returned: Vec<(u64, usize, ReturnReason, Fate)>,
    pub(crate) kept: Vec<OwnedMessage>,
    unhandled: Option<usize>,
}

fn is_right(words: &[u64], payload: &[u8]) -> bool {
    payload == pattern(payload.len(), words[0])
}

fn listen(side: &mut Side<Seen>) {
    side.endpoint.on_request(ECHO, |seen, Request { message, token }| {
        assert!(is_right(message.words(), message.payload()), "request {:?}", message.words());
        seen.asked.push((message.words().to_vec(), message.payload().len()));
        token.reply(ECHO, message.words(), message.payload()).expect("it asked");
    });
    side.endpoint.on_reply(ECHO, |seen, message| {
        assert!(is_right(message.words(), message.payload()), "reply {:?}", message.words());
        seen.answered.push((message.words().to_vec(), message.payload().len()));
    });
    side.endpoint.on_request(KEEP, |seen, Request { message, .. }| seen.kept.push(message.keep()));
    side.endpoint.on_returned(|seen, returned| {
        let (words, payload) = (returned.message.words(), returned.message.payload());
        assert!(is_right(words, payload), "returned {words:?}");
        seen.returned.push((words[0], payload.len(), returned.reason, returned.fate));
    });
}

/// Both sides with these handlers, and a connection.
pub(crate) fn joined<S: Default>(
    mut sides: (Side<S>, Side<S>),
    listen: fn(&mut Side<S>),
) -> (Side<S>, Side<S>, Connection) {
    listen(&mut sides.0);
    listen(&mut sides.1);
    let to = connect(&mut sides.0, &mut sides.1);
    (sides.0, sides.1, to)
}

pub(crate) fn listening(sides: (Side<Seen>, Side<Seen>)) -> (Side<Seen>, Side<Seen>, Connection) {
    joined(sides, listen)
}

fn pair() -> (Side<Seen>, Side<Seen>, Connection) {
    listening(nodes(plain("alpha"), plain("beta")))
}

/// Send all of these, with these words, as fast as the connection takes them.
pub(crate) fn send(
    (alpha, beta): (&mut Side<Seen>, &mut Side<Seen>),
    to: Connection,
    lengths: &[usize],
    words: usize,
) -> Vec<(Vec<u64>, usize)> {
    let all: Vec<_> = lengths.iter().zip(0..).map(|(&length, number)| (vec![number; words], length)).collect();
    let mut left: VecDeque<_> = all.iter().cloned().collect();
    until(alpha, beta, "all sent", |alpha, _| {
        while let Some((words, length)) = left.front() {
            match alpha.endpoint.try_request(to, ECHO, words, &pattern(*length, words[0])) {
                Ok(()) => _ = left.pop_front(),
                Err(error) => {
                    assert!(error.is_temporary(), "{error}");
                    break;
                }
            }
        }
        left.is_empty()
    });
    all
}

fn lengths_around(frame: usize) -> Vec<usize> {
    vec![
        0,
        1,
        frame - 1,
        frame,
        frame + 1,
        2 * frame,
        7,
        20_000,
        64 << 10,
        66_559,
        66_560,
        66_561,
        100_000,
        3,
        MOST - 1,
        MOST,
        5,
    ]
}

#[test]
fn messages_of_any_length_arrive_in_order() {
    for words in [1, 4] {
        let (mut alpha, mut beta, to) = pair();
        let frame = alpha.endpoint.describe(to).unwrap().max_body - words * 8;
        let all = send((&mut alpha, &mut beta), to, &lengths_around(frame), words);
        until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == all.len());
        // A bad wire reorders what is short on connections that are not ordered; this one is.
        assert_eq!(beta.state.asked, all);
        assert_eq!(alpha.state.answered, all);
        until(&mut alpha, &mut beta, "accepted", |alpha, _| alpha.endpoint.is_accepted(to));
        assert!(alpha.state.returned.is_empty());
    }
}

#[test]
fn both_directions_at_once_and_from_handlers() {
    let (mut alpha, mut beta, to) = pair();
    let sum = |side: &Side<Seen>| side.state.answered.len();
    // Beta asks on the connection that alpha opened, from a handler.
    beta.endpoint.on_request(HandlerId(9), |_, Request { message, .. }| {
        let sent = message.endpoint().try_request(
            message.from(),
            ECHO,
            &[message.word(0)],
            &pattern(100_000, message.word(0)),
        );
        sent.expect("room");
    });
    let mut number = 0;
    until(&mut alpha, &mut beta, "twenty each", |alpha, beta| {
        if number < 20 && sum(alpha) as u64 == number && sum(beta) as u64 == number {
            alpha.endpoint.try_request(to, HandlerId(9), &[number], b"").expect("room");
            alpha.endpoint.try_request(to, ECHO, &[number], &pattern(150_000, number)).expect("room");
            number += 1;
        }
        sum(alpha) == 20 && sum(beta) == 20
    });
}

#[test]
fn the_limit_is_the_receivers() {
    let (mut alpha, mut beta, to) = listening(nodes(plain("alpha").max_message(0), plain("beta").max_message(100_000)));
    let too_long = alpha.endpoint.try_request(to, ECHO, &[0], &pattern(100_001, 0)).unwrap_err();
    assert_eq!(too_long, RequestError::TooLarge { needs: 100_001, most: 100_000 });
    let parts = [pattern(50_000, 0), pattern(50_001, 50_000)];
    let parts = parts.each_ref().map(|part| IoSlice::new(part));
    assert_eq!(alpha.endpoint.try_request_vectored(to, ECHO, &[0], &parts).unwrap_err(), too_long);
    let frame = alpha.endpoint.describe(to).unwrap().max_body;
    alpha.endpoint.try_request(to, KEEP, &[0], &pattern(100_000, 0)).unwrap();
    until(&mut alpha, &mut beta, "kept", |_, beta| beta.state.kept.len() == 1);
    // Alpha takes what fits a frame.
    let mut got = None;
    beta.endpoint.on_request(HandlerId(7), |_, Request { token, .. }| {
        let error = token.reply(ECHO, &[0], &pattern(5000, 0)).unwrap_err();
        assert!(matches!(error, am_api::ReplyError::TooLarge { .. }), "{error}");
    });
    alpha.endpoint.try_request(to, HandlerId(7), &[], b"").unwrap();
    until(&mut alpha, &mut beta, "handled", |alpha, beta| {
        got = alpha.endpoint.is_accepted(to).then_some(beta.state.kept.len());
        got.is_some()
    });
    assert!(frame < 100_000);
}

#[test]
fn parts_and_kept_messages() {
    let (mut alpha, mut beta, to) = pair();
    for number in 0..8 {
        let whole = pattern(100_000 + number as usize, number);
        let (first, rest) = whole.split_at(33);
        let (second, third) = rest.split_at(40_000);
        let parts = [first, second, &[], third].map(IoSlice::new);
        until(&mut alpha, &mut beta, "sent", |alpha, _| {
            match alpha.endpoint.try_request_vectored(to, KEEP, &[number, 7], &parts) {
                Ok(()) => true,
                Err(error) => {
                    assert!(error.is_temporary(), "{error}");
                    false
                }
            }
        });
    }
    until(&mut alpha, &mut beta, "kept", |_, beta| beta.state.kept.len() == 8);
    drop(alpha);
    let kept = std::mem::take(&mut beta.state.kept);
    drop(beta);
    std::thread::spawn(move || {
        for (number, message) in (0..).zip(&kept) {
            assert_eq!(message.words(), [number, 7]);
            assert!(is_right(message.words(), message), "{number}");
            assert_eq!(message.len(), 100_000 + number as usize);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_call_has_a_long_answer() {
    let (mut alpha, mut beta, to) = pair();
    alpha.endpoint.on_outcome(ECHO, |seen, outcome| {
        let answer = outcome.result.expect("an answer");
        assert!(is_right(answer.words(), answer.payload()));
        seen.answered.push((answer.words().to_vec(), answer.payload().len()));
    });
    // The pattern begins with the call's id, which is known only now.
    beta.endpoint.on_request(ECHO, |_, Request { message, token }| {
        assert_eq!(message.payload(), pattern(300_000, 5));
        token.reply(ECHO, &[message.word(0)], &pattern(500_000, message.word(0))).unwrap();
    });
    alpha.endpoint.try_call(to, ECHO, &[], &pattern(300_000, 5), Duration::from_secs(60)).unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state.answered.len() == 1);
    assert_eq!(alpha.state.answered[0].1, 500_000);
}

#[test]
fn no_handler_returns_the_whole_message() {
    let (mut alpha, mut beta, to) = pair();
    alpha.endpoint.try_request(to, HandlerId(77), &[3, 1, 2], &pattern(200_000, 3)).unwrap();
    until(&mut alpha, &mut beta, "returned", |alpha, _| !alpha.state.returned.is_empty());
    assert_eq!(alpha.state.returned, [(3, 200_000, ReturnReason::NoHandler, Fate::NotDelivered)]);
    let all = send((&mut alpha, &mut beta), to, &[100_000, 5], 1);
    until(&mut alpha, &mut beta, "the connection lives", |alpha, _| alpha.state.answered.len() == 2);
    assert_eq!(beta.state.asked, all);
}

/// Without order, what is short does not wait for what is long.
#[test]
fn nothing_waits_on_a_connection_without_order() {
    let (mut alpha, mut beta) = nodes(plain("alpha"), plain("beta"));
    listen(&mut alpha);
    listen(&mut beta);
    let to = alpha.endpoint.connect_unordered("beta", "main", 0).expect("a connection asked for");
    until(&mut alpha, &mut beta, "connected", |alpha, _| alpha.endpoint.is_open(to));
    let mut all = send((&mut alpha, &mut beta), to, &[1 << 20, 5, 100_000, 0, 3000, 7], 2);
    until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == all.len());
    for seen in [&mut alpha.state.answered, &mut beta.state.asked, &mut all] {
        seen.sort_unstable();
    }
    assert_eq!((&alpha.state.answered, &beta.state.asked), (&all, &all));
}

/// A peer leaves in the middle: each message was handled or returns, and none counts as unhandled.
#[test]
fn a_peer_that_leaves_in_the_middle() {
    for turns in [1, 2, 4, 8, 40] {
        let (mut alpha, mut beta, to) = pair();
        alpha.endpoint.on_connection(|seen, event| {
            if matches!(event.change, ConnectionChange::Ended(_)) {
                seen.unhandled = Some(event.unhandled[0] as usize);
            }
        });
        for number in 0..3 {
            until(&mut alpha, &mut beta, "sent", |alpha, _| {
                alpha.endpoint.try_request(to, KEEP, &[number], &pattern(60_000, number)).is_ok()
            });
        }
        for _ in 0..turns {
            alpha.poll();
            beta.poll();
        }
        let handled: Vec<u64> = beta.state.kept.iter().map(|message| message.word(0)).collect();
        drop(beta);
        while alpha.state.unhandled.is_none() || !alpha.endpoint.is_accepted(to) {
            alpha.poll();
        }
        (0..100).for_each(|_| _ = alpha.poll());
        for number in 0..3 {
            let fates: Vec<Fate> = alpha
                .state
                .returned
                .iter()
                .filter(|returned| returned.0 == number)
                .map(|returned| returned.3)
                .collect();
            let is_right = match handled.contains(&number) {
                true => fates.is_empty() || fates == [Fate::Unknown],
                false => fates.len() == 1,
            };
            assert!(is_right, "{turns}: {number} of {handled:?}, {:?}", alpha.state.returned);
        }
        assert_eq!(alpha.state.unhandled, Some(0), "{turns}");
    }
}

/// Over shared memory the receiver copies what is long from the sender's memory.
#[test]
fn long_data_is_copied_once_over_shared_memory() {
    let name = format!("shm:once-{},lend=16384", std::process::id());
    let open = |node: &str| {
        let node = plain(node).open(&name).expect("a segment");
        let endpoint = node.endpoint("main").expect("an endpoint");
        Side { node, endpoint, state: Seen::default() }
    };
    let (mut alpha, mut beta, to) = listening((open("alpha"), open("beta")));
    let all = send((&mut alpha, &mut beta), to, &[MOST, 5, 300_000, 0, 20_000, 40_000], 2);
    until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == all.len());
    assert_eq!((&beta.state.asked, &alpha.state.answered), (&all, &all));
    for side in [&alpha, &beta] {
        assert_eq!((side.counter("bulk_unreadable"), side.counter("bulk_lent") > 6), (0, true));
    }
}

/// A shared payload is not copied by its sender, and is given back when the message was handled or has returned.
#[test]
fn a_shared_payload_is_given_back() {
    let (mut alpha, mut beta, to) = pair();
    let (page, answer) = (Arc::new(pattern(MOST, 3)), Arc::new(pattern(200_000, 4)));
    let answers = Arc::clone(&answer);
    beta.endpoint.on_request(ECHO, move |_, Request { token, .. }| token.reply_shared(ECHO, &[4], &answers).unwrap());
    alpha.endpoint.try_request_shared(to, KEEP, &[3, 8], &page).unwrap();
    assert_eq!(Arc::strong_count(&page), 2, "the node has one");
    until(&mut alpha, &mut beta, "kept", |_, beta| beta.state.kept.len() == 1);
    assert!(beta.state.kept[0][..] == pattern(MOST, 3));
    until(&mut alpha, &mut beta, "given back", |_, _| Arc::strong_count(&page) == 1);
    alpha.endpoint.try_request_shared(to, HandlerId(77), &[3], &page).unwrap();
    until(&mut alpha, &mut beta, "returned", |alpha, _| !alpha.state.returned.is_empty());
    assert_eq!(alpha.state.returned, [(3, MOST, ReturnReason::NoHandler, Fate::NotDelivered)]);
    until(&mut alpha, &mut beta, "given back", |_, _| Arc::strong_count(&page) == 1);
    alpha.endpoint.try_request_shared(to, ECHO, &[1], &Arc::new(vec![0; 7])).unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| !alpha.state.answered.is_empty());
    assert_eq!(alpha.state.answered, [(vec![4], 200_000)]);
    until(&mut alpha, &mut beta, "given back", |_, _| Arc::strong_count(&answer) == 2);
}
