//! Payloads built where they leave from, and messages kept where they arrived.

use std::io::Write;
use std::thread;

use crate::common::{Side, connect, connected, plain, until};
use am_api::{Connection, HandlerId, OwnedMessage, Prepared, Request, RequestError, ReturnReason, Transport};
use am_transport::loopback;

const SINK: HandlerId = HandlerId(3);

type Got = Vec<(Vec<u64>, Vec<u8>)>;

/// Two sides; the second notes what it gets.
fn sides() -> (Side<()>, Side<Got>, Connection) {
    let (alpha, mut beta, to) = connected::<(), Got>();
    beta.endpoint.on_request(SINK, |got, Request { message: request, .. }| {
        got.push((request.words().to_vec(), request.payload().to_vec()))
    });
    (alpha, beta, to)
}

/// Send until credit is over; returns how many.
fn exhaust(alpha: &Side<()>, to: Connection) -> usize {
    (0..).take_while(|_| alpha.endpoint.try_request(to, SINK, &[], b"").is_ok()).count()
}

#[test]
fn what_is_built_in_place_arrives() {
    let (mut alpha, mut beta, to) = sides();
    let mut sent = Vec::new();
    for length in (0..80).chain([511, 512, 1000, 1400]) {
        for words in [&[][..], &[1], &[u64::MAX, 2, 3, 4]] {
            let mut prepared = alpha.endpoint.prepare(to, SINK, words, length, 1400).unwrap();
            assert!(prepared.room() >= length && prepared.room() <= 1400, "{}", prepared.room());
            let payload: Vec<u8> = (0..length).map(|at| (at * 7 + words.len()) as u8).collect();
            prepared.space()[..length].copy_from_slice(&payload);
            while let Err((error, again)) = prepared.commit(length) {
                assert!(error.is_temporary(), "{error}");
                prepared = again;
                alpha.poll();
                beta.poll();
            }
            sent.push((words.to_vec(), payload));
        }
    }
    until(&mut alpha, &mut beta, "all here", |_, beta| beta.state.len() == sent.len());
    assert!(beta.state == sent);
}

#[test]
fn it_is_as_large_as_a_frame_and_no_larger() {
    let (alpha, _beta, to) = sides();
    let most = alpha.endpoint.frame_payload(to, 2).unwrap();
    let prepared = alpha.endpoint.prepare(to, SINK, &[1, 2], 0, usize::MAX).unwrap();
    assert_eq!(prepared.room(), most);
    let (error, prepared) = prepared.commit(most + 1).unwrap_err();
    assert_eq!(error, RequestError::TooLargeForFrame { needs: most + 1, most });
    prepared.commit(most).unwrap();
    let error = alpha.endpoint.prepare(to, SINK, &[1, 2], most + 1, usize::MAX).unwrap_err();
    assert_eq!(error, RequestError::TooLargeForFrame { needs: most + 1, most });
    assert_eq!(
        alpha.endpoint.prepare(to, SINK, &[0; 5], 0, 1).unwrap_err(),
        RequestError::TooManyWords { count: 5, most: 4 }
    );
}

/// The memory has had other messages in it, for others to see.
#[test]
fn nothing_of_earlier_messages_leaves() {
    let (mut alpha, mut beta, to) = sides();
    // Each frame of the pool has been full of secrets.
    for _ in 0..10_000 {
        _ = alpha.endpoint.try_request(to, SINK, &[], &[0x5e; 1400]);
        alpha.poll();
        beta.poll();
    }
    until(&mut alpha, &mut beta, "all credit back", |alpha, beta| {
        beta.state.clear();
        alpha.endpoint.credit(to) > 100
    });
    let mut prepared = alpha.endpoint.prepare(to, SINK, &[], 1000, 1000).unwrap();
    prepared.write_all(b"written").unwrap();
    assert_eq!(prepared.written(), 7);
    prepared.commit(900).unwrap();
    let mut prepared = alpha.endpoint.prepare(to, SINK, &[], 1000, 1000).unwrap();
    assert!(prepared.space().iter().all(|&byte| byte == 0), "what is lent is clear");
    prepared.commit(1000).unwrap();
    alpha.endpoint.prepare(to, SINK, &[], 20, 20).unwrap().commit(20).unwrap();
    until(&mut alpha, &mut beta, "three here", |_, beta| beta.state.len() == 3);
    beta.state.sort_by_key(|(_, payload)| payload.len());
    let expected = [vec![0; 20], [b"written".to_vec(), vec![0; 893]].concat(), vec![0; 1000]];
    for ((_, payload), expected) in beta.state.iter().zip(expected) {
        assert!(*payload == expected, "{} bytes", expected.len());
    }
}

#[test]
fn a_writer_takes_what_fits() {
    let (mut alpha, mut beta, to) = sides();
    let mut prepared = alpha.endpoint.prepare(to, SINK, &[9], 8, 8).unwrap();
    assert_eq!(prepared.write(b"0123").unwrap(), 4);
    assert_eq!(prepared.write(b"456789").unwrap(), 4);
    assert_eq!(prepared.write(b"x").unwrap(), 0);
    let written = prepared.written();
    prepared.commit(written).unwrap();
    until(&mut alpha, &mut beta, "here", |_, beta| !beta.state.is_empty());
    assert_eq!(beta.state, [(vec![9], b"01234567".to_vec())]);
}

#[test]
fn without_credit_it_comes_back_as_it_was() {
    let (mut alpha, mut beta, to) = sides();
    let mut prepared = alpha.endpoint.prepare(to, SINK, &[5], 3, 3).unwrap();
    prepared.write_all(b"abc").unwrap();
    let sent = exhaust(&alpha, to);
    let (error, prepared) = prepared.commit(3).unwrap_err();
    assert_eq!(error, RequestError::NoCredit);
    until(&mut alpha, &mut beta, "credit", |alpha, beta| alpha.endpoint.credit(to) > 0 && beta.state.len() == sent);
    prepared.commit(3).unwrap();
    until(&mut alpha, &mut beta, "here", |_, beta| beta.state.len() == sent + 1);
    assert_eq!(beta.state[sent], (vec![5], b"abc".to_vec()));
}

#[test]
fn the_connection_may_close_meanwhile() {
    let (mut alpha, mut beta, to) = sides();
    let prepared = alpha.endpoint.prepare(to, SINK, &[], 9, 9).unwrap();
    let another = alpha.endpoint.prepare(to, SINK, &[], 9, 9).unwrap();
    let from = beta.node.endpoint::<()>("other").unwrap();
    drop(from);
    drop(std::mem::replace(&mut beta.endpoint, beta.node.endpoint("new").unwrap()));
    until(&mut alpha, &mut beta, "over", |alpha, _| !alpha.endpoint.is_open(to));
    let (error, prepared) = prepared.commit(9).unwrap_err();
    assert_eq!(error, RequestError::Dead(ReturnReason::Closed));
    alpha.endpoint.close(to);
    let (error, prepared) = prepared.commit(9).unwrap_err();
    assert_eq!(error, RequestError::Closed);
    // Nor need the node be there.
    drop(alpha);
    assert_eq!(prepared.commit(9).unwrap_err().0, RequestError::NodeDropped);
    drop(another);
}

#[test]
fn what_is_prepared_and_dropped_gives_its_frame_back() {
    let (_, pool, mut alpha, mut beta, to) = with_pools();
    let before = pool.available();
    let mut many: Vec<Prepared> = Vec::new();
    let error = loop {
        match alpha.endpoint.prepare(to, SINK, &[], 1, 100) {
            Ok(prepared) => many.push(prepared),
            Err(error) => break error,
        }
    };
    assert_eq!(error, RequestError::QueueFull, "no more than can be sent");
    assert!(pool.available() > 0, "others have frames left after {}", many.len());
    assert!(many.len() > 100);
    drop(many);
    assert_eq!(pool.available(), before);
    let prepared = alpha.endpoint.prepare(to, SINK, &[], 1, 100).unwrap();
    prepared.commit(50).unwrap();
    until(&mut alpha, &mut beta, "here", |_, beta| beta.state.len() == 1);
    beta.state.clear();
    until(&mut alpha, &mut beta, "all frames home", |_, _| pool.available() == before);
}

/// Both sides build: the question and its answer.
#[test]
fn replies_are_built_in_place_too() {
    let (mut alpha, mut beta, to) = connected::<Got, ()>();
    beta.endpoint.on_request(SINK, |_, Request { message: request, token }| {
        let most = token.frame_payload(2);
        let (error, token) = token.prepare(SINK, &[1, 2], most + 1, most + 1).unwrap_err();
        assert_eq!(error, RequestError::TooLargeForFrame { needs: most + 1, most });
        let mut reply = token.prepare(SINK, &[1, 2], 1, request.payload().len()).unwrap();
        reply.write_all(request.payload()).unwrap();
        let written = reply.written();
        reply.commit(written).unwrap();
    });
    alpha.endpoint.on_reply(SINK, |got, reply| got.push((reply.words().to_vec(), reply.payload().to_vec())));
    let sent: Vec<Vec<u8>> = (1..400).map(|round| vec![round as u8; round * 3]).collect();
    for payload in &sent {
        while alpha.endpoint.try_request(to, SINK, &[], payload).is_err() {
            alpha.poll();
            beta.poll();
        }
    }
    until(&mut alpha, &mut beta, "all answered", |alpha, _| alpha.state.len() == sent.len());
    assert!(alpha.state.iter().zip(&sent).all(|((words, got), sent)| *words == [1, 2] && got == sent));
}

/// Neither the frame nor the right to ask again is lost.
#[test]
fn a_reply_prepared_and_dropped_is_forgone() {
    let (mut alpha, mut beta, to) = connected::<(), usize>();
    beta.endpoint.on_request(SINK, |dropped, Request { token, .. }| {
        drop(token.prepare(SINK, &[], 0, 100).unwrap());
        *dropped += 1;
    });
    for round in 1..5_000 {
        until(&mut alpha, &mut beta, "credit", |alpha, _| alpha.endpoint.try_request(to, SINK, &[], b"x").is_ok());
        until(&mut alpha, &mut beta, "dropped", |_, beta| beta.state == round);
    }
    assert_eq!(beta.node.counters().get("no_reply_frame"), 0);
}

/// Who asked goes away while the answer is being built.
#[test]
fn a_prepared_reply_outlives_who_asked() {
    let (mut alpha, mut beta, to) = connected::<(), Vec<Prepared>>();
    beta.endpoint.on_request(SINK, |built, Request { token, .. }| built.push(token.prepare(SINK, &[], 9, 9).unwrap()));
    alpha.endpoint.try_request(to, SINK, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "asked", |_, beta| beta.state.len() == 1);
    alpha.endpoint.close(to);
    let mut reply = beta.state.pop().unwrap();
    for _ in 0..100 {
        alpha.poll();
        beta.poll();
    }
    let (error, again) = reply.commit(9).unwrap_err();
    assert_eq!(error, RequestError::Dead(ReturnReason::Closed), "the other side closed it");
    reply = again;
    drop(beta);
    assert_eq!(reply.commit(9).unwrap_err().0, RequestError::NodeDropped);
}

/// With the pools of beta and alpha.
fn with_pools() -> (am_ring::Pool, am_ring::Pool, Side<()>, Side<Vec<OwnedMessage>>, Connection) {
    let [left, right] = loopback::pair().map(|plug| plug.open().expect("memory"));
    let (left_pool, right_pool) = (left.caps().pool.clone(), right.caps().pool.clone());
    // Each message in a frame of its own: frames are counted here.
    let mut alpha = Side::<()>::open(plain("alpha").coalesce(false), Box::new(left));
    let mut beta = Side::<Vec<OwnedMessage>>::open(plain("beta").window(64), Box::new(right));
    beta.endpoint.on_request(SINK, |kept, Request { message: request, .. }| kept.push(request.keep()));
    let to = connect(&mut alpha, &mut beta);
    // What set-up sent is home again, and the frame for a reply at hand.
    alpha.endpoint.try_request(to, SINK, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "one here", |_, beta| !beta.state.is_empty());
    beta.state.clear();
    for _ in 0..1000 {
        alpha.poll();
        beta.poll();
    }
    (right_pool, left_pool, alpha, beta, to)
}

fn request(
    alpha: &mut Side<()>,
    beta: &mut Side<Vec<OwnedMessage>>,
    to: Connection,
    number: u64,
    give: impl Fn(OwnedMessage),
) {
    let payload = [number as u8; 300];
    while let Err(error) = alpha.endpoint.try_request(to, SINK, &[number], &payload) {
        assert!(error.is_temporary(), "{error}");
        beta.state.drain(..).for_each(&give);
        alpha.poll();
        beta.poll();
    }
}

#[test]
fn kept_messages_stay_and_their_credit_with_them() {
    let (_, pool, mut alpha, mut beta, to) = with_pools();
    let before = pool.available();
    let credit = alpha.endpoint.credit(to);
    (0..credit as u64).for_each(|number| request(&mut alpha, &mut beta, to, number, drop));
    until(&mut alpha, &mut beta, "all kept", |_, beta| beta.state.len() == credit);
    for _ in 0..1000 {
        alpha.poll();
        beta.poll();
    }
    assert_eq!(alpha.endpoint.credit(to), 0, "a credit is a frame of the receiver");
    // On this wire what arrives is the sender's frame.
    assert!(pool.available() <= before - credit, "{} of {before}", pool.available());
    for kept in &beta.state {
        assert_eq!((kept.words().len(), kept.len(), kept.handler()), (1, 300, SINK));
        assert!(kept.iter().all(|&byte| byte == kept.word(0) as u8));
    }
    beta.state.clear();
    until(&mut alpha, &mut beta, "credit back", |alpha, _| alpha.endpoint.credit(to) == credit);
    until(&mut alpha, &mut beta, "frames home", |_, _| pool.available() == before);
}

#[test]
fn they_may_go_to_another_thread() {
    const COUNT: u64 = 20_000;
    let (_, pool, mut alpha, mut beta, to) = with_pools();
    let before = pool.available();
    let (give, take) = std::sync::mpsc::channel::<OwnedMessage>();
    let adder = thread::spawn(move || {
        take.iter()
            .inspect(|kept| assert!(kept.iter().all(|&byte| byte == kept.word(0) as u8)))
            .map(|kept| kept.word(0))
            .sum::<u64>()
    });
    for number in 0..COUNT {
        request(&mut alpha, &mut beta, to, number, |kept| give.send(kept).unwrap());
    }
    until(&mut alpha, &mut beta, "all received", |_, beta| {
        beta.state.drain(..).for_each(|kept| give.send(kept).unwrap());
        beta.counter("requests_received") == COUNT + 1
    });
    beta.poll();
    beta.state.drain(..).for_each(|kept| give.send(kept).unwrap());
    drop(give);
    assert_eq!(adder.join().unwrap(), COUNT * (COUNT - 1) / 2);
    until(&mut alpha, &mut beta, "frames home", |_, _| pool.available() == before);
}

#[test]
fn they_may_outlive_conversation_and_node() {
    let (_, pool, mut alpha, mut beta, to) = with_pools();
    request(&mut alpha, &mut beta, to, 7, drop);
    request(&mut alpha, &mut beta, to, 8, drop);
    until(&mut alpha, &mut beta, "kept", |_, beta| beta.state.len() == 2);
    alpha.endpoint.close(to);
    until(&mut alpha, &mut beta, "closed", |_, beta| beta.counter("control_received") > 2);
    beta.state.pop();
    beta.poll();
    let kept = beta.state.pop().unwrap();
    drop((alpha, beta));
    assert_eq!(pool.available(), pool.layout().frames - 1);
    assert_eq!((kept.word(0), &kept[..]), (7, &[7; 300][..]));
    drop(kept);
    assert_eq!(pool.available(), pool.layout().frames);
}

/// All of the credit is used and the receiver keeps what it was for: the two must not wait for each other.
#[test]
fn with_a_window_of_one() {
    let (mut alpha, mut beta) = crate::common::nodes::<(), Vec<OwnedMessage>>(plain("alpha"), plain("beta").window(1));
    beta.endpoint
        .on_request(SINK, |kept, Request { message: request, .. }| kept.extend([request.keep(), request.keep()]));
    let to = connect(&mut alpha, &mut beta);
    for _ in 0..10 {
        alpha.endpoint.try_request(to, SINK, &[], b"").unwrap();
        until(&mut alpha, &mut beta, "kept twice", |_, beta| beta.state.len() == 2);
        beta.state.pop();
        (0..100).for_each(|_| _ = (alpha.poll(), beta.poll()));
        assert_eq!(alpha.endpoint.credit(to), 0, "one of the two is left");
        beta.state.pop();
        until(&mut alpha, &mut beta, "credit", |alpha, _| alpha.endpoint.credit(to) == 1);
    }
}

#[test]
fn keeping_and_preparing_allocate_nothing() {
    let (_, _, mut alpha, mut beta, to) = with_pools();
    beta.state.reserve(1024);
    let mut round = |count: u64| {
        for number in 0..count {
            let mut prepared = alpha.endpoint.prepare(to, SINK, &[number], 600, 600).unwrap();
            prepared.space().fill(number as u8);
            while let Err((_, again)) = prepared.commit(600) {
                prepared = again;
                alpha.poll();
                beta.poll();
                beta.state.clear();
            }
        }
    };
    round(10_000);
    assert_eq!(allocation_counter::measure(|| round(50_000)).count_total, 0);
}
