//! Peers go, with a word or without: what was not delivered comes back.

use std::time::Duration;

use crate::common::{Side, connect, connected, nodes, plain, until};
use am_api::{Class, Connection, ConnectionChange, Fate, HandlerId, NotOpen, Request, RequestError, ReturnReason};
use am_transport::loopback;

const WORK: HandlerId = HandlerId(3);

/// What came back: why, number, bytes.
type Back = Vec<(ReturnReason, u64, Vec<u8>)>;

fn note_returned(alpha: &mut Side<Back>, to: Connection) {
    alpha.endpoint.on_returned(move |back, returned| {
        assert_eq!((returned.to(), returned.message.handler(), returned.class()), (to, WORK, Class::Request));
        back.push((returned.reason, returned.message.word(0), returned.message.payload().to_vec()));
    });
}

fn content(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize * 7]
}

fn send(alpha: &Side<Back>, to: Connection, numbers: std::ops::Range<u64>) {
    for number in numbers {
        alpha.endpoint.try_request(to, WORK, &[number], &content(number)).expect("a request");
    }
}

fn expected(reason: ReturnReason, numbers: std::ops::Range<u64>) -> Back {
    numbers.map(|number| (reason, number, content(number))).collect()
}

#[test]
fn a_peer_that_says_farewell_is_known_to_be_gone_at_once() {
    let (mut alpha, beta, to) = connected::<Back, ()>();
    note_returned(&mut alpha, to);
    send(&alpha, to, 0..20);
    drop(beta);
    alpha.poll();
    assert_eq!(alpha.endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Closed)));
    alpha.poll();
    assert_eq!(alpha.state, expected(ReturnReason::Closed, 0..20));
    assert_eq!(alpha.endpoint.try_request(to, WORK, &[], b""), Err(RequestError::Dead(ReturnReason::Closed)));
    assert_eq!(alpha.counter("returned"), 20);
}

#[test]
fn however_many_conversations_there_were_all_are_ended() {
    let (mut alpha, mut beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    let all: Vec<Connection> = (0..200).map(|_| alpha.endpoint.connect("beta", "main").unwrap()).collect();
    until(&mut alpha, &mut beta, "all open", |alpha, _| all.iter().all(|to| alpha.endpoint.is_open(*to)));
    drop(beta);
    (0..10).for_each(|_| _ = alpha.poll());
    let closed = Err(NotOpen::Dead(ReturnReason::Closed));
    assert_eq!(all.iter().filter(|to| alpha.endpoint.ready(**to) == closed).count(), 200);
}

/// More peers fail than an endpoint is notified of in one turn.
#[test]
fn of_all_conversations_that_end_together_the_endpoint_hears() {
    const ALL: usize = 1500;
    // A daemon drops some of these set-up frames, because one program may fill only an eighth of a lane with them. They are sent again.
    let is_shared = std::env::var(crate::common::OVER).is_ok_and(|over| over.starts_with("amd"));
    let soon = Duration::from_millis(if is_shared { 5000 } else { 200 });
    let (mut alpha, mut beta) = nodes::<[usize; 3], ()>(plain("alpha").patience(soon).keepalive(soon), plain("beta"));
    alpha.endpoint.on_connection(|[opened, accepted, ended], event| match event.change {
        ConnectionChange::Opened => *opened += 1,
        ConnectionChange::Failed(why) => panic!("{why}"),
        ConnectionChange::Accepted => *accepted += 1,
        ConnectionChange::Ended(_) => *ended += 1,
    });
    (0..ALL).for_each(|_| _ = alpha.endpoint.connect("beta", "main").unwrap());
    until(&mut alpha, &mut beta, "all open", |alpha, _| alpha.state == [ALL, 0, 0]);
    crate::common::fated::dies(beta);
    alpha.endpoint.wait_until(&mut alpha.state, crate::common::LONG, |state| *state == [ALL, 0, ALL]);
    assert_eq!(alpha.state, [ALL, 0, ALL]);
}

/// An endpoint that is not polled for a while then gets the present states, and the ends of the states that it had been notified of.
#[test]
fn conversations_that_came_and_went_unseen_are_no_news() {
    let (mut alpha, mut beta) = nodes::<(), [usize; 2]>(plain("alpha"), plain("beta"));
    beta.endpoint.on_connection(|[accepted, ended], event| match event.change {
        ConnectionChange::Accepted => *accepted += 1,
        ConnectionChange::Ended(_) => *ended += 1,
        ConnectionChange::Opened | ConnectionChange::Failed(_) => (),
    });
    let mut other = beta.node.endpoint::<()>("other").unwrap();
    let mut meet = |alpha: &mut Side<()>| {
        let to = alpha.endpoint.connect("beta", "main").unwrap();
        let start = std::time::Instant::now();
        while !alpha.endpoint.is_open(to) {
            alpha.poll();
            other.poll(&mut ());
            assert!(start.elapsed() < crate::common::LONG);
        }
        to
    };
    let stays = meet(&mut alpha);
    for _ in 0..2000 {
        let to = meet(&mut alpha);
        alpha.endpoint.close(to);
    }
    until(&mut alpha, &mut beta, "all are notified", |_, beta| beta.state[0] - beta.state[1] == 1);
    assert!(beta.state[0] <= 1025, "{:?}", beta.state);
    alpha.endpoint.close(stays);
    until(&mut alpha, &mut beta, "the last one is notified", |_, beta| beta.state[0] == beta.state[1]);
}

#[test]
fn what_a_silent_peer_did_not_take_comes_back_after_the_patience() {
    let patience = Duration::from_millis(400);
    let (mut alpha, mut beta) = nodes::<Back, u64>(plain("alpha").patience(patience), plain("beta"));
    beta.endpoint.on_request(WORK, |count, _| *count += 1);
    let to = connect(&mut alpha, &mut beta);
    note_returned(&mut alpha, to);
    send(&alpha, to, 0..10);
    until(&mut alpha, &mut beta, "ten handled and known to be", |alpha, beta| {
        beta.state == 10 && alpha.endpoint.credit(to) == 128
    });
    // As if killed: no farewell, and nobody polls it any more.
    crate::common::fated::dies(beta);
    send(&alpha, to, 10..40);
    let came = alpha.endpoint.wait_until(&mut alpha.state, crate::common::LONG, |back| back.len() == 30);
    assert!(came, "{} came back", alpha.state.len());
    assert_eq!(alpha.state, expected(ReturnReason::Unreachable, 10..40));
}

/// A process that was stopped, or a machine that slept, finds everybody silent
/// for longer than its patience. It has to ask before it gives them up.
#[test]
fn who_was_away_gives_nobody_up() {
    let patience = Duration::from_millis(20);
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha").patience(patience), plain("beta").patience(patience));
    beta.endpoint.on_request(WORK, |count, _| *count += 1);
    let to = connect(&mut alpha, &mut beta);
    for sent in 1..10 {
        alpha.endpoint.try_request(to, WORK, &[], b"").expect("still connected");
        alpha.poll();
        std::thread::sleep(2 * patience);
        alpha.poll();
        until(&mut alpha, &mut beta, "handled", |_, beta| beta.state == sent);
    }
}

#[test]
fn replies_come_back_too() {
    let (alpha, mut beta, to) = connected::<(), Vec<(Class, u64)>>();
    beta.endpoint
        .on_request(WORK, |_, Request { message: request, token }| token.reply(WORK, request.words(), b"").unwrap());
    beta.endpoint.on_returned(|back, returned| back.push((returned.class(), returned.message.word(0))));
    alpha.endpoint.try_request(to, WORK, &[5], b"").unwrap();
    alpha.endpoint.flush();
    beta.poll();
    // The reply is on its way, and alpha goes without having taken it.
    drop(alpha);
    beta.poll();
    beta.poll();
    assert_eq!(beta.state, [(Class::Reply, 5)], "from {to:?}");
}

#[test]
fn who_closes_gets_back_what_was_under_way() {
    let (mut alpha, _beta, to) = connected::<Back, ()>();
    note_returned(&mut alpha, to);
    send(&alpha, to, 0..3);
    alpha.endpoint.close(to);
    // Nobody polls beta: it does not say what it has received.
    assert!(alpha.endpoint.wait_until(&mut alpha.state, crate::common::LONG, |back| back.len() == 3));
    assert_eq!(alpha.state, expected(ReturnReason::Closed, 0..3));
}

/// Its last act is to handle a reply: an acknowledgement was still to come.
#[test]
fn a_reply_that_was_handled_does_not_come_back_though_its_client_leaves_at_once() {
    let (mut server, client) = nodes::<u64, u64>(plain("server"), plain("client"));
    server
        .endpoint
        .on_request(WORK, |_, Request { message: request, token }| token.reply(WORK, request.words(), b"").unwrap());
    server.endpoint.on_returned(|back, _| *back += 1);
    let mut clients = vec![client];
    for _ in 0..20 {
        let mut client = clients.pop().unwrap();
        let to = client.endpoint.connect("server", "main").unwrap();
        until(&mut client, &mut server, "open", |client, _| client.endpoint.is_open(to));
        client.endpoint.on_reply(WORK, |answers, _| *answers += 1);
        let before = client.state;
        client.endpoint.try_request(to, WORK, &[], b"").unwrap();
        until(&mut client, &mut server, "answered", |client, _| client.state > before);
        client.endpoint.close(to);
        client.endpoint.flush();
        let gone = std::time::Instant::now();
        while gone.elapsed() < Duration::from_millis(5) {
            server.poll();
        }
        clients.push(client);
    }
    drop(clients);
    let gone = std::time::Instant::now();
    while gone.elapsed() < Duration::from_millis(50) {
        server.poll();
    }
    assert_eq!((server.state, server.counter("returned")), (0, 0));
}

/// What a client has heard of its requests.
#[derive(Default)]
struct Heard {
    answered: Vec<u64>,
    back: Vec<(Fate, u64)>,
    unhandled: u32,
    is_over: bool,
}

fn listen(client: &mut Side<Heard>) {
    client.endpoint.on_reply(WORK, |heard, reply| heard.answered.push(reply.word(0)));
    client.endpoint.on_returned(|heard, back| heard.back.push((back.fate, back.message.word(0))));
    client.endpoint.on_connection(|heard, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            assert_eq!(reason, ReturnReason::Closed);
            (heard.unhandled, heard.is_over) = (event.unhandled[0], true);
        }
    });
}

/// A server handles some requests and leaves: of each its client learns whether it was handled.
#[test]
fn of_what_a_server_that_leaves_did_not_handle_each_message_is_known() {
    let (mut client, mut server) = nodes::<Heard, Vec<u64>>(plain("alpha"), plain("beta").window(16));
    server.endpoint.on_request(WORK, |handled, Request { message: request, token }| {
        handled.push(request.word(0));
        token.reply(WORK, request.words(), b"").unwrap();
    });
    let to = connect(&mut client, &mut server);
    listen(&mut client);
    let mut next = 0;
    until(&mut client, &mut server, "some handled", |client, server| {
        next += client.endpoint.try_request(to, WORK, &[next], b"").is_ok() as u64;
        server.state.len() > 40
    });
    // More arrives at the server, and is acknowledged, but no handler gets it any more.
    let mut other = server.node.endpoint::<()>("other").unwrap();
    while next < server.state.len() as u64 + 8 || !client.endpoint.is_accepted(to) {
        next += client.endpoint.try_request(to, WORK, &[next], b"").is_ok() as u64;
        client.poll();
        other.poll(&mut ());
    }
    let Side { node, endpoint, state: handled, .. } = server;
    drop((other, endpoint, node));
    assert!(client.endpoint.wait_until(&mut client.state, crate::common::LONG, |heard| heard.is_over));
    let Heard { answered, back, unhandled, .. } = client.state;
    assert!(back.iter().all(|(fate, _)| *fate == Fate::NotDelivered), "{back:?}");
    assert!(handled.iter().copied().eq(0..handled.len() as u64) && unhandled > 0, "{} and {unhandled}", handled.len());
    let returned = back.iter().map(|(_, number)| *number);
    assert!(returned.eq(handled.len() as u64 + unhandled as u64..next), "in order, each once: {back:?}");
    assert!(answered.iter().copied().eq(0..answered.len() as u64) && answered.len() <= handled.len());
}

#[test]
fn the_others_go_on_when_one_endpoint_closes() {
    let (mut alpha, mut beta) = nodes::<(), u64>(plain("alpha"), plain("beta"));
    beta.endpoint.on_request(WORK, |count, _| *count += 1);
    let to = connect(&mut alpha, &mut beta);
    let second = beta.node.endpoint::<()>("second").unwrap();
    let to_second = alpha.endpoint.connect("beta", "second").unwrap();
    until(&mut alpha, &mut beta, "both open", |alpha, _| alpha.endpoint.is_open(to_second));
    drop(second);
    alpha.poll();
    assert_eq!(alpha.endpoint.ready(to_second), Err(NotOpen::Dead(ReturnReason::Closed)));
    alpha.endpoint.try_request(to, WORK, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "handled", |_, beta| beta.state == 1);
}

#[test]
fn a_node_lives_as_long_as_an_endpoint_of_it() {
    let (mut alpha, beta, to) = connected::<(), u64>();
    let Side { node, mut endpoint, mut state } = beta;
    drop(node);
    endpoint.on_request(WORK, |count, _| *count += 1);
    alpha.endpoint.try_request(to, WORK, &[], b"").unwrap();
    alpha.endpoint.flush();
    assert_eq!(endpoint.wait(&mut state, crate::common::LONG), 1);
    drop(endpoint);
    alpha.poll();
    assert_eq!(alpha.endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Closed)));
}

#[test]
fn both_sides_hear_of_conversations_that_come_and_go() {
    type Seen = Vec<(ConnectionChange, String)>;
    let (mut alpha, mut beta) = nodes::<Seen, Seen>(plain("alpha"), plain("beta"));
    for endpoint in [&mut alpha.endpoint, &mut beta.endpoint] {
        endpoint.on_connection(|seen, event| seen.push((event.change, event.to_string())));
    }
    let to = connect(&mut alpha, &mut beta);
    until(&mut alpha, &mut beta, "both know", |alpha, beta| alpha.state.len() + beta.state.len() == 2);
    alpha.endpoint.close(to);
    until(&mut alpha, &mut beta, "beta knows", |_, beta| beta.state.len() == 2);
    assert_eq!(alpha.state, [(ConnectionChange::Opened, "beta/main: open".to_owned())]);
    let (ended, over) =
        (ConnectionChange::Ended(ReturnReason::Closed), format!("alpha/main: ended: {}", ReturnReason::Closed));
    let accepted = "alpha/main: connected to this endpoint".to_owned();
    assert_eq!(beta.state, [(ConnectionChange::Accepted, accepted), (ended, over)]);
}

#[test]
fn a_peer_that_was_started_again_is_found_again_where_it_is_now() {
    let mut ends = loopback::wire(3).into_iter().map(|plug| Box::new(plug.open().expect("memory")));
    let mut end = || ends.next().expect("three ends");
    let (mut alpha, mut first) = (Side::<Back>::open(plain("alpha"), end()), Side::<()>::open(plain("beta"), end()));
    let to = connect(&mut alpha, &mut first);
    note_returned(&mut alpha, to);
    send(&alpha, to, 0..3);
    // As if killed; and started on another machine.
    crate::common::fated::dies(first);
    let mut second = Side::<u64>::open(plain("beta"), end());
    second.endpoint.on_request(WORK, |count, _| *count += 1);
    until(&mut alpha, &mut second, "messages back", |alpha, _| alpha.state.len() == 3);
    assert_eq!(alpha.state, expected(ReturnReason::Restarted, 0..3));
    let again = connect(&mut alpha, &mut second);
    assert_ne!(to, again);
    alpha.endpoint.try_request(again, WORK, &[], b"").unwrap();
    until(&mut alpha, &mut second, "handled", |_, second| second.state == 1);
    assert_eq!(alpha.node.peers().len(), 1, "it is the same node");
}

#[test]
fn who_asks_while_a_peer_is_started_again_is_answered_by_the_next_run() {
    let mut ends = loopback::wire(3).into_iter().map(|plug| Box::new(plug.open().expect("memory")));
    let mut end = || ends.next().expect("three ends");
    let (mut alpha, mut first) = (Side::<Back>::open(plain("alpha"), end()), Side::<()>::open(plain("beta"), end()));
    connect(&mut alpha, &mut first);
    crate::common::fated::dies(first);
    let to = alpha.endpoint.connect("beta", "main").unwrap();
    (0..100).for_each(|_| _ = alpha.poll());
    let mut second = Side::<()>::open(plain("beta"), end());
    until(&mut alpha, &mut second, "an answer", |alpha, _| {
        alpha.endpoint.ready(to) != Err(am_api::NotOpen::Connecting)
    });
    assert_eq!(alpha.endpoint.ready(to), Ok(()));
}
