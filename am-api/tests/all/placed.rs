//! Long messages go to memory of the program, with the order, the credit and the return of all others.

use std::sync::Arc;

use crate::common::{Side, connect, nodes, plain, until};
use crate::landing::Landing;
use crate::long::{MOST, joined, pattern};
use am_api::{Class, Connection, Destination, Fate, HandlerId, LongHead, Message, Request, RequestError, ReturnReason};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

const SEND: HandlerId = HandlerId(2);
/// What lies between the places of messages.
const MARGIN: usize = 100;
/// Messages that may be under way at once: the bytes of one may arrive before the handlers of those before it have run.
const PLACES: usize = 16;
const PLACE: usize = MARGIN + MOST;

struct Seen {
    landing: Landing,
    front: usize,
    asked: Vec<(u64, usize, bool)>,
    answered: Vec<(u64, usize, bool)>,
    returned: Vec<(u64, usize, ReturnReason, Fate)>,
    heads: Vec<(Class, u64)>,
}

impl Default for Seen {
    fn default() -> Seen {
        let (landing, none) = (Landing::new(PLACES * PLACE + MARGIN), vec![]);
        Seen { landing, front: 0, asked: none.clone(), answered: none, returned: vec![], heads: vec![] }
    }
}

/// Where the message of this number goes.
fn place(number: u64) -> usize {
    number as usize % PLACES * PLACE + MARGIN
}

impl Seen {
    fn destination(&mut self, head: &LongHead<'_>) -> Option<Destination> {
        assert_eq!(head.handler, SEND);
        assert!(head.first == &pattern(head.length, head.word(0))[..head.first.len()]);
        self.heads.push((head.class, head.word(0)));
        let (front, rest) = (self.front, head.length - self.front);
        Some(Destination { front, memory: self.landing.part(place(head.word(0)), rest) })
    }

    /// The number of the message, its length, and whether it was placed. All its bytes are here.
    fn of(&self, message: &Message<'_, Seen>) -> (u64, usize, bool) {
        let mut payload = message.payload().to_vec();
        if message.is_placed() {
            assert_eq!(payload.len(), self.front);
            let rest = message.word(1) as usize - self.front;
            payload.extend_from_slice(&self.landing.bytes(place(message.word(0)), rest));
        }
        assert!(payload == pattern(payload.len(), message.word(0)), "message {}", message.word(0));
        (message.word(0), payload.len(), message.is_placed())
    }
}

fn listen(side: &mut Side<Seen>) {
    side.endpoint.receive_into(|seen, head| seen.destination(head));
    side.endpoint.on_request(SEND, |seen, Request { message, token }| {
        let of = seen.of(&message);
        seen.asked.push(of);
        token.reply(SEND, message.words(), &pattern(of.1, of.0)).expect("it asked");
    });
    side.endpoint.on_reply(SEND, |seen, message| {
        let of = seen.of(&message);
        seen.answered.push(of);
    });
    side.endpoint.on_returned(|seen, returned| {
        let (word, payload) = (returned.message.word(0), returned.message.payload());
        assert!(payload == pattern(payload.len(), word));
        seen.returned.push((word, payload.len(), returned.reason, returned.fate));
    });
}

fn pair() -> (Side<Seen>, Side<Seen>, Connection) {
    joined(nodes(plain("alpha"), plain("beta")), listen)
}

/// Send each as soon as the connection takes it. One that is shared has its first bytes copied.
fn send(
    alpha: &mut Side<Seen>,
    beta: &mut Side<Seen>,
    to: Connection,
    lengths: &[usize],
    shared_behind: Option<usize>,
) {
    let mut left: Vec<(u64, Vec<u8>)> =
        (0..).zip(lengths).map(|(number, length)| (number, pattern(*length, number))).collect();
    left.reverse();
    until(alpha, beta, "all sent", |alpha, _| {
        while let Some((number, bytes)) = left.last() {
            let words = [*number, bytes.len() as u64];
            let sent = match shared_behind {
                Some(front) => {
                    let (front, rest) = bytes.split_at(front.min(bytes.len()));
                    let rest = Arc::new(rest.to_vec());
                    alpha.endpoint.try_request_shared_behind(to, SEND, &words, front, &rest)
                }
                None => alpha.endpoint.try_request(to, SEND, &words, bytes),
            };
            if sent.is_err_and(|error: RequestError| error.is_temporary()) {
                break;
            }
            left.pop();
        }
        left.is_empty()
    });
}

/// All of these arrive, in order, and those longer than a frame where the program wants them.
fn all_arrive(
    (mut alpha, mut beta, to): (Side<Seen>, Side<Seen>, Connection),
    lengths: &[usize],
    (front, shared_behind): (usize, Option<usize>),
) -> (Side<Seen>, Side<Seen>) {
    let frame = alpha.endpoint.describe(to).unwrap().max_body - 2 * 8;
    (alpha.state.front, beta.state.front) = (front, front);
    send(&mut alpha, &mut beta, to, lengths, shared_behind);
    until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.answered.len() == lengths.len());
    let wanted: Vec<(u64, usize, bool)> =
        (0..).zip(lengths).map(|(number, &length)| (number, length, length > frame)).collect();
    assert_eq!((&beta.state.asked, &alpha.state.answered), (&wanted, &wanted), "front {front}");
    let heads = |class| wanted.iter().filter(|one| one.2).map(move |one| (class, one.0)).collect::<Vec<_>>();
    assert_eq!((&beta.state.heads, &alpha.state.heads), (&heads(Class::Request), &heads(Class::Reply)));
    for side in [&alpha, &beta] {
        let landing = &side.state.landing;
        assert!((0..=PLACES).all(|at| landing.bytes(at * PLACE, MARGIN) == [0; MARGIN]));
    }
    (alpha, beta)
}

#[test]
fn payloads_go_where_the_program_wants_them() {
    let (alpha, _beta, to) = pair();
    let frame = alpha.endpoint.describe(to).unwrap().max_body - 2 * 8;
    let lengths =
        [0, 1, frame - 1, frame, frame + 1, 2 * frame, 7, 32_767, 32_768, 32_769, 64 << 10, MOST - 1, MOST, 5];
    for front in [0, 1, 48] {
        for shared_behind in [None, Some(0), Some(48), Some(frame)] {
            all_arrive(pair(), &lengths, (front, shared_behind));
        }
    }
}

#[test]
fn over_a_bad_wire_too() {
    for seed in 0..8 {
        let bad = |seed| Faults { duplicate: 0.01, reorder: 0.05, reorder_by: 8, ..Faults::lossy(seed, 0.02) };
        let [left, right] = loopback::pair();
        let open = |name, plug: loopback::Plug, seed| {
            Side::open(plain(name), Box::new(Faulty::new(plug.open().expect("memory"), bad(seed))))
        };
        let sides = joined((open("alpha", left, seed), open("beta", right, seed + 100)), listen);
        let lengths: Vec<usize> =
            (0..40).map(|at| [5, 3000, 100, 40_000, 200_000][(at * 7 + seed as usize) % 5]).collect();
        all_arrive(sides, &lengths, (16, (seed % 2 == 0).then_some(16)));
    }
}

/// The memory of a node for long messages is that of one message; what is placed needs none of it.
#[test]
fn what_is_placed_takes_no_memory_of_the_node() {
    let (mut alpha, mut beta) = nodes(plain("alpha"), plain("beta").message_memory(1));
    beta.endpoint.receive_into(|seen: &mut Seen, head| seen.destination(head));
    listen(&mut alpha);
    listen(&mut beta);
    let to = connect(&mut alpha, &mut beta);
    let (_, beta) = all_arrive((alpha, beta, to), &[MOST; 8], (8, Some(8)));
    assert_eq!(beta.counter("long_evicted"), 0);
}

/// Through shared memory the receiver copies from the sender's memory to where the program wants it.
#[test]
fn what_is_lent_is_copied_once() {
    let name = format!("shm:placed-{},lend=16384", std::process::id());
    let open = |node: &str| {
        let node = plain(node).open(&name).expect("a segment");
        let endpoint = node.endpoint("main").expect("an endpoint");
        Side { node, endpoint, state: Seen::default() }
    };
    let sides = joined((open("alpha"), open("beta")), listen);
    let (alpha, beta) = all_arrive(sides, &[MOST, 5, 300_000, 0, 20_000, 40_000], (48, Some(48)));
    for side in [&alpha, &beta] {
        assert_eq!((side.counter("bulk_unreadable"), side.counter("bulk_lent") > 6), (0, true));
    }
}

/// What arrives after the program has taken its memory back is dropped, and the message says so.
#[test]
fn memory_that_was_taken_back_is_not_written() {
    for turns in 0..12 {
        let (mut alpha, mut beta, to) = pair();
        beta.state.front = 8;
        beta.endpoint.on_request(SEND, |seen: &mut Seen, Request { message, .. }| {
            assert_eq!(message.payload().len(), 8, "the front");
            seen.asked.push((message.word(0), 8, message.is_placed()));
        });
        alpha.endpoint.try_request(to, SEND, &[9, MOST as u64], &pattern(MOST, 9)).unwrap();
        until(&mut alpha, &mut beta, "the head", |_, beta| !beta.state.heads.is_empty());
        for _ in 0..turns {
            alpha.poll();
            beta.poll();
        }
        let was_there = !beta.state.asked.is_empty();
        let before = beta.state.landing.all();
        beta.state.landing.take_back();
        until(&mut alpha, &mut beta, "handled", |_, beta| !beta.state.asked.is_empty());
        assert_eq!(beta.state.asked, [(9, 8, was_there)], "{turns}");
        assert!(beta.state.landing.all() == before, "{turns}");
        until(&mut alpha, &mut beta, "accepted", |alpha, _| alpha.endpoint.is_accepted(to));
    }
}

/// A destination of another length than the message's, or with more front than the head has, is none.
#[test]
fn a_destination_that_does_not_fit_is_not_used() {
    for (front, missing) in [(0, 1), (8, 0), (100_000, 100_000), (usize::MAX, 7)] {
        let (mut alpha, mut beta, to) = pair();
        beta.endpoint.receive_into(move |seen: &mut Seen, head| {
            let memory = seen.landing.part(place(0), head.length - missing);
            Some(Destination { front, memory })
        });
        send(&mut alpha, &mut beta, to, &[200_000, 5], None);
        until(&mut alpha, &mut beta, "both", |_, beta| beta.state.asked.len() == 2);
        assert_eq!(beta.state.asked, [(0, 200_000, false), (1, 5, false)]);
        assert_eq!(beta.state.landing.bytes(0, MOST), [0; MOST]);
    }
}

/// One that is refused, or whose peer leaves in the middle, returns whole.
#[test]
fn what_is_not_delivered_returns_whole() {
    let (mut alpha, mut beta, to) = pair();
    let (front, rest) = (pattern(MOST, 4)[..48].to_vec(), Arc::new(pattern(MOST, 4)[48..].to_vec()));
    let nowhere = alpha.endpoint.try_request_shared_behind(to, HandlerId(77), &[4], &front, &rest);
    assert_eq!(nowhere, Ok(()));
    until(&mut alpha, &mut beta, "returned", |alpha, _| !alpha.state.returned.is_empty());
    assert_eq!(alpha.state.returned, [(4, MOST, ReturnReason::NoHandler, Fate::NotDelivered)]);
    until(&mut alpha, &mut beta, "given back", |_, _| Arc::strong_count(&rest) == 1);
    alpha.endpoint.try_request_shared_behind(to, SEND, &[4, MOST as u64], &front, &rest).unwrap();
    until(&mut alpha, &mut beta, "the head", |_, beta| !beta.state.heads.is_empty());
    assert!(beta.state.asked.is_empty());
    let Side { node, endpoint, state } = beta;
    drop((endpoint, node));
    while alpha.state.returned.len() < 2 || Arc::strong_count(&rest) > 1 {
        alpha.poll();
    }
    assert_eq!(alpha.state.returned[1], (4, MOST, ReturnReason::Closed, Fate::NotDelivered));
    assert!(state.landing.bytes(0, MARGIN) == [0; MARGIN]);
}
