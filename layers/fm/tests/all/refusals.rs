//! What cannot be done, and what is said about it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LONG, against, cluster, open, pair, until};
use am_api::Node;
use am_fm::{Cluster, Fm, FmError, HandlerId, MeetError, NotOpen, Rank, ReturnReason, SendError};
use am_transport::loopback;

const COUNT: HandlerId = HandlerId(7);

/// Turn both until both are there.
fn met<A: Default, B: Default>(zero: &mut Fm<A>, one: &mut Fm<B>) {
    let start = Instant::now();
    while zero.meet(Duration::ZERO).is_err() | one.meet(Duration::ZERO).is_err() {
        assert!(start.elapsed() < LONG);
    }
}

fn turns<A: Default, B: Default>(zero: &mut Fm<A>, one: &mut Fm<B>) {
    let (mut a, mut b) = (A::default(), B::default());
    (0..50).for_each(|_| _ = zero.extract(&mut a) + one.extract(&mut b));
}

#[test]
fn nodes_that_cannot_be_meant_are_named() {
    let (mut zero, _one) = pair::<(), ()>();
    let mut send = |dest| zero.send_4(&mut (), Rank(dest), COUNT, [0; 4]);
    assert_eq!(send(2), Err(SendError::NoSuchNode { dest: Rank(2), nodes: 2 }));
    assert_eq!(send(usize::MAX), Err(SendError::NoSuchNode { dest: Rank(usize::MAX), nodes: 2 }));
    assert_eq!(send(0), Err(SendError::Own(Rank(0))));
}

#[test]
fn what_is_too_large_says_how_large_it_may_be_and_the_most_arrives() {
    let (mut zero, mut one) = pair::<(), Vec<usize>>();
    one.on(COUNT, |seen, message| seen.push(message.bytes().len()));
    met(&mut zero, &mut one);
    let most = zero.most(Rank(1)).expect("a conversation");
    let bytes = vec![1; most + 1];
    let error = zero.send(&mut (), Rank(1), COUNT, &bytes);
    assert_eq!(error, Err(SendError::TooLarge { size: most + 1, most }));
    zero.send(&mut (), Rank(1), COUNT, &bytes[..most]).expect("the most");
    zero.send(&mut (), Rank(1), COUNT, b"").expect("nothing");
    let mut seen = vec![];
    until(&mut one, &mut seen, "both", |seen| seen.len() == 2);
    seen.sort_unstable();
    assert_eq!(seen, [0, most]);
}

#[test]
fn there_may_be_nothing_to_extract() {
    let (mut zero, mut one) = pair::<(), ()>();
    assert_eq!((zero.extract(&mut ()), one.extract(&mut ())), (0, 0));
    assert_eq!(zero.extract_or_wait(&mut (), Duration::from_millis(2)), 0);
}

#[test]
fn a_handler_that_is_not_there_is_counted_where_it_is_missing() {
    let (mut zero, mut one) = pair::<(), u64>();
    one.on(COUNT, |count, _| *count += 1);
    met(&mut zero, &mut one);
    zero.send_4(&mut (), Rank(1), HandlerId(8), [0; 4]).expect("sent");
    zero.send_4(&mut (), Rank(1), COUNT, [0; 4]).expect("sent");
    let mut count = 0;
    // The second message is handled once the sender has the first one back.
    until(&mut one, &mut count, "counted", |count| {
        zero.extract(&mut ());
        *count == 1
    });
    assert_eq!((count, one.counters().get("no_handler")), (1, 1));
}

#[test]
fn a_node_that_is_not_there_is_unreachable_and_found_when_it_comes() {
    let [left, right] = loopback::pair();
    let mut zero = open::<()>(0, left);
    let error = zero.send_4(&mut (), Rank(1), COUNT, [0; 4]).expect_err("nobody is there");
    assert_eq!(error, SendError::Unreachable { dest: Rank(1), why: NotOpen::Dead(ReturnReason::Unreachable) });
    assert_eq!(zero.meet(Duration::ZERO), Err(MeetError::Missing(vec![1])));
    let mut one = open::<()>(1, right);
    met(&mut zero, &mut one);
    zero.send_4(&mut (), Rank(1), COUNT, [0; 4]).expect("sent");
}

/// What a node that leaves has not taken comes back, and a send after that finds nobody.
#[test]
fn messages_to_a_node_that_leaves_come_back() {
    let (mut zero, mut one) = pair::<Vec<(usize, ReturnReason, [u64; 4], Vec<u8>)>, ()>();
    zero.on_returned(|back, returned| {
        assert_eq!(returned.handler(), COUNT);
        back.push((returned.dest().0, returned.reason(), returned.words(), returned.bytes().to_vec()));
    });
    met(&mut zero, &mut one);
    let mut back = vec![];
    zero.send_4(&mut back, Rank(1), COUNT, [1, 2, 3, 4]).expect("sent");
    zero.send(&mut back, Rank(1), COUNT, b"bytes").expect("sent");
    drop(one);
    let start = Instant::now();
    while back.len() < 2 {
        zero.extract(&mut back);
        assert!(start.elapsed() < LONG);
    }
    let closed = ReturnReason::Closed;
    assert_eq!(back, [(1, closed, [1, 2, 3, 4], vec![]), (1, closed, [0; 4], b"bytes".to_vec())]);
    assert!(matches!(zero.send(&mut back, Rank(1), COUNT, b""), Err(SendError::Unreachable { .. })));
}

/// Both know the same names, and number them differently.
#[test]
fn nodes_with_another_list_are_strangers() {
    let [left, right] = loopback::pair();
    let mut zero = open::<()>(0, left);
    let other = Cluster::new(["beta", "alpha"], Rank(0)).unwrap();
    let mut beta = Fm::<()>::open(other, Box::new(right.open().unwrap())).unwrap();
    let start = Instant::now();
    let error = loop {
        beta.extract(&mut ());
        match zero.meet(Duration::ZERO) {
            Err(MeetError::Missing(_)) => assert!(start.elapsed() < LONG),
            done => break done,
        }
    };
    assert_eq!(error, Err(MeetError::Send(SendError::Stranger(Rank(1)))));
    turns(&mut zero, &mut beta);
}

#[test]
fn a_node_has_the_name_that_the_list_says() {
    let [left, _right] = loopback::pair();
    let node = Node::open_on("gamma", Box::new(left.open().unwrap())).unwrap();
    let error = Fm::<()>::on_node(node, cluster(0)).expect_err("another name");
    assert!(
        matches!(&error, FmError::Name { node, own: Rank(0), listed } if node == "gamma" && listed == "alpha"),
        "{error}"
    );
}

/// A node that leaves waits until what it sent has been accepted; the other handles it later.
#[test]
fn what_was_accepted_is_handled_though_its_sender_has_left() {
    const MANY: u64 = 60;
    let has_left = AtomicBool::new(false);
    let far = |plug| {
        let mut one = open::<Vec<usize>>(1, plug);
        one.on(COUNT, |seen, message| seen.push(message.source().0));
        // Node 1 does not extract: `meet` turns the loop without. It acknowledges after a delay, so it turns until then.
        while !has_left.load(SeqCst) {
            _ = one.meet(Duration::ZERO);
            thread::yield_now();
        }
        let mut seen = vec![];
        while one.extract(&mut seen) > 0 {}
        assert_eq!(seen, vec![0; MANY as usize]);
    };
    against(far, |plug| {
        let mut zero = open::<()>(0, plug);
        zero.meet(LONG).expect("node 1");
        (0..MANY).for_each(|_| zero.send_4(&mut (), Rank(1), COUNT, [0; 4]).expect("sent"));
        let finished = zero.finish(LONG);
        has_left.store(true, SeqCst);
        finished.expect("accepted");
    });
}
