//! A request, its handler, its reply.

use crate::common::{Side, connect, connected, nodes, plain, until};
use am_api::{Connection, Framing, HandlerId, Request};

const ECHO: HandlerId = HandlerId(7);
const ECHOED: HandlerId = HandlerId(200);

/// What came back.
#[derive(Default)]
struct Echoes(Vec<(Vec<u64>, Vec<u8>)>);

fn echo(beta: &mut Side<()>) {
    beta.endpoint.on_request(ECHO, |(), Request { message: request, token }| {
        token.reply(ECHOED, request.words(), request.payload()).expect("a reply");
    });
}

fn collect(alpha: &mut Side<Echoes>) {
    alpha.endpoint.on_reply(ECHOED, |echoes, reply| echoes.0.push((reply.words().to_vec(), reply.payload().to_vec())));
}

fn there_and_back(alpha: &mut Side<Echoes>, beta: &mut Side<()>, to: Connection, words: &[u64], payload: &[u8]) {
    alpha.endpoint.try_request(to, ECHO, words, payload).expect("a request");
    until(alpha, beta, "the echo", |alpha, _| !alpha.state.0.is_empty());
    assert_eq!(alpha.state.0.pop(), Some((words.to_vec(), payload.to_vec())));
    assert!(alpha.state.0.is_empty());
}

/// Every number of words with every payload that is short, around a short
/// frame's end, or the longest.
fn every_size(framing: Framing) {
    let (mut alpha, mut beta) = nodes(plain("alpha").framing(framing), plain("beta").framing(framing));
    echo(&mut beta);
    collect(&mut alpha);
    let to = connect(&mut alpha, &mut beta);
    let words = [u64::MAX, 1, 0x0123_4567_89ab_cdef, 0];
    let bytes: Vec<u8> = (0..1500u32).map(|at| (at * 7) as u8).collect();
    for count in 0..=4 {
        let most = alpha.endpoint.frame_payload(to, count).expect("open");
        assert_eq!(most, 1500 - framing.cost() - 8 * count, "{framing}, {count} words");
        for size in (0..=64).chain([100, 999, most - 1, most]) {
            there_and_back(&mut alpha, &mut beta, to, &words[..count], &bytes[..size]);
        }
    }
}

#[test]
fn every_size_comes_back_in_bare_framing() {
    every_size(Framing::Bare);
}

#[test]
fn every_size_comes_back_in_split_framing() {
    every_size(Framing::Split);
}

#[test]
fn every_size_comes_back_in_plain_framing() {
    every_size(Framing::Plain);
}

#[test]
fn requests_and_replies_have_tables_of_their_own() {
    let (mut alpha, mut beta, to) = connected::<Vec<&str>, Vec<&str>>();
    beta.endpoint.on_request(ECHO, |seen, Request { token, .. }| {
        seen.push("request");
        token.reply(ECHO, &[], b"").unwrap();
    });
    beta.endpoint.on_reply(ECHO, |seen, _| seen.push("reply"));
    alpha.endpoint.on_reply(ECHO, |seen, _| seen.push("reply"));
    alpha.endpoint.try_request(to, ECHO, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "the reply", |alpha, _| !alpha.state.is_empty());
    assert_eq!((alpha.state, beta.state), (vec!["reply"], vec!["request"]));
}

#[test]
fn either_side_of_a_conversation_may_ask() {
    let (mut alpha, mut beta, to) = connected::<u64, Option<Connection>>();
    beta.endpoint.on_request(ECHO, |from, Request { message: request, .. }| *from = Some(request.from()));
    alpha.endpoint.on_request(ECHO, |sum, Request { message: request, .. }| *sum += request.word(0));
    alpha.endpoint.try_request(to, ECHO, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "known to each other", |_, beta| beta.state.is_some());
    beta.endpoint.try_request(beta.state.unwrap(), ECHO, &[42], b"").unwrap();
    until(&mut alpha, &mut beta, "asked back", |alpha, _| alpha.state == 42);
}

#[test]
fn handlers_may_send_requests() {
    let (mut alpha, mut beta, to) = connected::<Vec<u64>, ()>();
    beta.endpoint.on_request(ECHO, |(), Request { message: request, .. }| {
        request.endpoint().try_request(request.from(), ECHOED, &[request.word(0) + 1], b"").expect("room");
    });
    alpha.endpoint.on_request(ECHOED, |seen, Request { message: request, .. }| {
        seen.push(request.word(0));
        if request.word(0) < 10 {
            request.endpoint().try_request(request.from(), ECHO, request.words(), b"").expect("room");
        }
    });
    alpha.endpoint.try_request(to, ECHO, &[0], b"").unwrap();
    until(&mut alpha, &mut beta, "ten hops", |alpha, _| alpha.state.len() == 10);
    assert_eq!(alpha.state, (1..=10).collect::<Vec<u64>>());
}

#[test]
fn endpoints_of_one_node_do_not_mix() {
    let (mut alpha, mut beta, to) = connected::<(), Vec<u64>>();
    let mut other = beta.node.endpoint::<Vec<u64>>("other").unwrap();
    let mut others = Vec::new();
    beta.endpoint.on_request(ECHO, |seen, Request { message: request, .. }| seen.push(request.word(0)));
    other.on_request(ECHO, |seen, Request { message: request, .. }| seen.push(request.word(0)));
    let to_other = alpha.endpoint.connect("beta", "other").unwrap();
    until(&mut alpha, &mut beta, "a second conversation", |alpha, _| alpha.endpoint.is_open(to_other));
    alpha.endpoint.try_request(to, ECHO, &[1], b"").unwrap();
    alpha.endpoint.try_request(to_other, ECHO, &[2], b"").unwrap();
    until(&mut alpha, &mut beta, "both handled", |_, beta| {
        other.poll(&mut others);
        !beta.state.is_empty() && !others.is_empty()
    });
    assert_eq!((beta.state, others), (vec![1], vec![2]));
}

#[test]
fn a_node_finds_its_peer_and_says_how_it_reaches_it() {
    let (mut alpha, mut beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    assert_eq!(alpha.endpoint.peer(to).map(|peer| peer.to_string()), Some("beta/main".into()));
    assert_eq!(alpha.node.peers().iter().map(|peer| peer.name.to_string()).collect::<Vec<_>>(), ["beta"]);
    let description = alpha.endpoint.describe(to).expect("open");
    let by = description.address.as_ref().map(|address| format!("{address} ({})", description.mode));
    let by = description.path.clone().or(by).unwrap_or_else(|| alpha.node.transport());
    let expected = format!("beta/main by {by}, plain framing (as configured), 1488 bytes a frame, 1048576 a message");
    assert_eq!(description.to_string(), expected);
    if std::env::var(crate::common::OVER).is_err() {
        assert_eq!(by, "loopback (memory)");
    }
}
