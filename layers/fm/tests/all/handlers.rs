//! What handlers may do: answer, send elsewhere, wait.

use std::time::Duration;

use crate::common::{LONG, against, open, until};
use am_fm::{Cluster, Fm, HandlerId, Rank, SendError};
use am_transport::loopback::{self, Plug};

const ASK: HandlerId = HandlerId(0);
const ANSWER: HandlerId = HandlerId(1);
const HOP: HandlerId = HandlerId(2);
const END: HandlerId = HandlerId(3);

#[derive(Default)]
struct Seen {
    asked: u64,
    answered: u64,
    wrong: u64,
    failed: Option<SendError>,
}

/// Both nodes send without end in sight, and answer everything: with handlers
/// that wait for the room of ordinary messages this would hang, each waiting for the other.
fn asks_and_answers(own: usize, plug: Plug) {
    const MANY: u64 = 20_000;
    let mut fm = open::<Seen>(own, plug);
    fm.on(ASK, |seen, message| {
        seen.asked += 1;
        message.send(message.source(), ANSWER, message.bytes()).expect("an answer has room");
    });
    fm.on(ANSWER, |seen, message| {
        seen.answered += 1;
        seen.wrong += u64::from(message.bytes() != b"the question");
    });
    let mut seen = Seen::default();
    for _ in 0..MANY {
        fm.send(&mut seen, Rank(1 - own), ASK, b"the question").expect("sent");
    }
    until(&mut fm, &mut seen, "all answered", |seen| seen.asked == MANY && seen.answered == MANY);
    assert_eq!(seen.wrong, 0);
    fm.finish(LONG).expect("accepted");
}

#[test]
fn who_answers_what_it_is_asked_never_hangs() {
    against(|plug| asks_and_answers(1, plug), |plug| asks_and_answers(0, plug));
}

/// A message that goes round a ring of three, each handler sending it on: to
/// nodes that it has not talked to before.
#[test]
fn handlers_send_to_third_nodes() {
    const ROUNDS: u64 = 3000;
    let node = |own: usize, plug: Plug| {
        let cluster = Cluster::new(["a", "b", "c"], Rank(own)).unwrap();
        let mut fm = Fm::<u64>::open(cluster, Box::new(plug.open().unwrap())).unwrap();
        let next = Rank((own + 1) % 3);
        fm.on(HOP, move |last, message| {
            let [hop, ..] = message.words();
            *last = hop;
            // Everybody hears of the end, and the last of them says it to nobody.
            if hop < ROUNDS + 2 {
                message.send_4(next, HOP, [hop + 1, 0, 0, 0]).expect("sent on");
            }
        });
        let mut last = 0;
        if own == 0 {
            fm.send_4(&mut last, next, HOP, [1, 0, 0, 0]).expect("sent");
        }
        // Each hop waits until its node's thread runs, so a busy machine takes long for all of them.
        while last < ROUNDS {
            let before = last;
            until(&mut fm, &mut last, "the next hop", |last| *last > before);
        }
        fm.finish(LONG).expect("accepted");
    };
    std::thread::scope(|scope| {
        for (own, plug) in loopback::wire(3).into_iter().enumerate() {
            scope.spawn(move || node(own, plug));
        }
    });
}

/// More than an answer: where there is no room the handler waits, the loop
/// turns, and no other handler runs before it has returned.
#[test]
fn a_handler_that_waits_for_room_is_alone() {
    const EACH: u64 = 700;
    let one = |plug| {
        let mut fm = open::<u64>(1, plug);
        let inside = std::cell::Cell::new(false);
        fm.on(ASK, move |asked, message| {
            assert!(!inside.replace(true), "a handler within a handler");
            for number in 0..EACH {
                message.send_4(Rank(0), ANSWER, [number, 0, 0, 0]).expect("room, when node 0 extracts");
            }
            *asked += 1;
            inside.set(false);
        });
        let mut asked = 0;
        until(&mut fm, &mut asked, "both asked", |asked| *asked == 2);
        fm.finish(LONG).expect("accepted");
    };
    against(one, |plug| {
        let mut fm = open::<Vec<u64>>(0, plug);
        fm.on(ANSWER, |seen, message| seen.push(message.words()[0]));
        let mut seen = vec![];
        fm.send_4(&mut seen, Rank(1), ASK, [0; 4]).expect("sent");
        fm.send_4(&mut seen, Rank(1), ASK, [0; 4]).expect("sent");
        until(&mut fm, &mut seen, "all", |seen| seen.len() as u64 == 2 * EACH);
        seen.sort_unstable();
        assert_eq!(seen, (0..EACH).flat_map(|number| [number, number]).collect::<Vec<_>>());
    });
}

/// Two handlers that each wait for the other: one of them gets an error, which names the other.
#[test]
fn handlers_that_wait_for_each_other_are_told() {
    let node = |own: usize, plug: Plug| {
        let mut fm = open::<Seen>(own, plug);
        fm.set_patience(Duration::from_millis(300));
        let peer = Rank(1 - own);
        fm.on(ASK, move |seen, message| {
            seen.asked += 1;
            while seen.failed.is_none() && seen.answered < 100_000 {
                seen.failed = message.send_4(peer, ANSWER, [0; 4]).err();
                seen.answered += 1;
            }
        });
        fm.on(ANSWER, |_, _| ());
        fm.on(END, |seen, _| seen.wrong += 1);
        let mut seen = Seen::default();
        fm.meet(LONG).expect("the other");
        fm.send_4(&mut seen, peer, ASK, [0; 4]).expect("sent");
        until(&mut fm, &mut seen, "asked", |seen| seen.asked == 1);
        // Whatever came of it, both go on.
        fm.send_4(&mut seen, peer, END, [0; 4]).expect("sent");
        until(&mut fm, &mut seen, "notified of the end", |seen| seen.wrong == 1);
        fm.finish(LONG).expect("accepted");
        seen.failed
    };
    let (send, receive) = std::sync::mpsc::channel();
    let near = against(move |plug| send.send(node(1, plug)).expect("told"), |plug| node(0, plug));
    let failed = [near, receive.recv().expect("told")];
    let stuck = failed.iter().flatten().collect::<Vec<_>>();
    assert!(!stuck.is_empty(), "both had room for 100,000 messages that nobody took");
    for error in stuck {
        assert!(matches!(error, SendError::Stuck { waited, .. } if *waited >= Duration::from_millis(300)), "{error}");
        assert!(error.to_string().contains("does not extract"), "{error}");
    }
}
