//! Flows that are closed, and peers that are killed: what each side learns, and what remains.

use std::time::Duration;

use crate::harness::Net;
use am_proto::{EndpointId, Event, Fate, FlowId, FlowState, ReturnReason};
use am_wire::Class;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Two nodes, alpha's flow to beta, and beta's half of it.
fn pair(seed: u64) -> (Net, [(usize, EndpointId); 2], FlowId, FlowId) {
    let mut net = Net::new(seed);
    let alpha = net.node("alpha");
    let beta = net.node("beta");
    let flow = net.connect(alpha.0, alpha.1, "beta");
    net.idle(10 * MS);
    let theirs = net.events(beta.0).into_iter().find_map(|event| match event {
        Event::Accepted(_, flow, _) => Some(flow),
        _ => None,
    });
    (net, [alpha, beta], flow, theirs.expect("accepted"))
}

/// The returned messages: word and fate.
fn returned(net: &mut Net, (at, endpoint): (usize, EndpointId)) -> Vec<(u64, Fate)> {
    let mut all = vec![];
    while let Some(back) = net.core(at).poll_returned(endpoint) {
        all.push((back.message.words().at(0), back.fate));
    }
    all
}

fn ended(net: &mut Net, at: usize) -> Option<(ReturnReason, [u32; 2])> {
    net.events(at).into_iter().find_map(|event| match event {
        Event::Ended(.., ending) => Some((ending.reason, ending.unhandled)),
        _ => None,
    })
}

/// All slots and all room of the node are free again.
fn nothing_is_left(net: &mut Net, at: usize) {
    let core = net.core(at);
    assert_eq!((core.kept_messages(), core.closing_flows(), core.granted()), (0, 0, 0), "at node {at}");
}

#[test]
fn a_close_says_what_was_handled() {
    let (mut net, [alpha, beta], flow, _) = pair(1);
    net.send(alpha.0, flow, Class::Request, 5, b"").unwrap();
    net.run(SECOND, |net| net.echo(beta.0, beta.1));
    net.run(SECOND, |net| net.extract(alpha.0, alpha.1).is_some());
    // The reply's acknowledgement still waits for a message to travel with.
    net.core(alpha.0).close(flow);
    net.idle(SECOND);
    assert_eq!(ended(&mut net, beta.0), Some((ReturnReason::Closed, [0, 0])));
    assert_eq!(returned(&mut net, beta), []);
    nothing_is_left(&mut net, alpha.0);
    nothing_is_left(&mut net, beta.0);
}

#[test]
fn a_close_that_is_lost_is_repeated_and_so_is_its_answer() {
    for seed in 0..50 {
        let (mut net, [alpha, beta], flow, theirs) = pair(seed);
        net.send(alpha.0, flow, Class::Request, 5, b"").unwrap();
        net.run(SECOND, |net| net.extract(beta.0, beta.1).is_some());
        net.faults.drop = 0.4;
        net.core(beta.0).close(theirs);
        net.idle(200 * MS);
        net.faults.drop = 0.0;
        net.idle(SECOND);
        // The request was handled. It does not come back, although its acknowledgement may have been lost.
        let is_told = net.core(alpha.0).state(flow) == FlowState::Ended(ReturnReason::Closed);
        assert!(is_told || seed % 7 != 0, "seed {seed}: five are hardly ever lost");
        assert!(returned(&mut net, alpha).iter().all(|&(_, fate)| fate == Fate::Unknown && !is_told), "seed {seed}");
        assert_eq!(net.core(beta.0).closing_flows(), 0);
    }
}

/// A pair. Beta has handled three of alpha's eight requests. They wait together if an earlier one has been there.
fn three_of_eight(seed: u64, is_first: bool) -> (Net, [(usize, EndpointId); 2], FlowId, FlowId) {
    let (mut net, [alpha, beta], flow, theirs) = pair(seed);
    if !is_first {
        net.send(alpha.0, flow, Class::Request, 0, b"").unwrap();
        net.idle(SECOND);
        net.extract(beta.0, beta.1).expect("a request");
    }
    for word in 0..8 {
        net.send(alpha.0, flow, Class::Request, word, b"").unwrap();
    }
    net.idle(SECOND);
    let handled = [(); 3].map(|()| net.extract(beta.0, beta.1).expect("a request").words().at(0));
    assert_eq!(handled, [0, 1, 2]);
    (net, [alpha, beta], flow, theirs)
}

#[test]
fn closing_an_endpoint_reports_its_unhandled_messages() {
    for is_first in [true, false] {
        let (mut net, [alpha, beta], flow, _) = three_of_eight(3, is_first);
        for word in 8..10 {
            net.send(alpha.0, flow, Class::Request, word, b"").unwrap();
        }
        // They leave and are lost.
        net.faults.drop = 1.0;
        net.drain();
        net.faults.drop = 0.0;
        net.core(beta.0).close_endpoint(beta.1, &[]);
        net.idle(SECOND);
        assert_eq!(ended(&mut net, alpha.0), Some((ReturnReason::Closed, [5, 0])), "3 to 7 were acknowledged");
        assert_eq!(returned(&mut net, alpha), [(8, Fate::NotDelivered), (9, Fate::NotDelivered)]);
        nothing_is_left(&mut net, beta.0);
        net.core(alpha.0).close(flow);
        nothing_is_left(&mut net, alpha.0);
    }
}

/// A program that closes a connection and then drops its node.
#[test]
fn closing_a_flow_and_then_its_endpoint_reports_unhandled_messages() {
    for is_first in [true, false] {
        let (mut net, [alpha, beta], _, theirs) = three_of_eight(9, is_first);
        net.core(beta.0).close(theirs);
        net.core(beta.0).close_endpoint(beta.1, &[]);
        net.idle(SECOND);
        assert_eq!(ended(&mut net, alpha.0), Some((ReturnReason::Closed, [5, 0])), "3 to 7 were acknowledged");
        nothing_is_left(&mut net, beta.0);
    }
}

#[test]
fn after_a_crash_only_unsent_messages_are_known_to_be_undelivered() {
    let (mut net, [alpha, beta], flow, _) = pair(4);
    let window = net.core(alpha.0).credit(flow, Class::Request) as u64;
    for word in 0..window {
        net.send(alpha.0, flow, Class::Request, word, b"").unwrap();
    }
    net.drain();
    net.nodes[beta.0] = None;
    net.idle(5 * SECOND);
    assert_eq!(ended(&mut net, alpha.0).map(|(reason, _)| reason), Some(ReturnReason::Unreachable));
    let back = returned(&mut net, alpha);
    assert!(back.iter().map(|(word, _)| *word).eq(0..window), "in order");
    assert!(back.iter().all(|(_, fate)| *fate == Fate::Unknown));
    net.core(alpha.0).close(flow);
    nothing_is_left(&mut net, alpha.0);
}

#[test]
fn a_close_without_an_answer_ends() {
    let (mut net, [alpha, beta], flow, _) = pair(5);
    net.nodes[beta.0] = None;
    net.send(alpha.0, flow, Class::Request, 7, b"").unwrap();
    net.drain();
    net.core(alpha.0).close(flow);
    assert_eq!(net.core(alpha.0).state(flow), FlowState::Unknown);
    net.idle(SECOND);
    assert_eq!(returned(&mut net, alpha), [(7, Fate::Unknown)]);
    nothing_is_left(&mut net, alpha.0);
}

#[test]
fn both_sides_may_close_at_once() {
    let (mut net, [alpha, beta], flow, theirs) = pair(6);
    net.send(alpha.0, flow, Class::Request, 1, b"").unwrap();
    net.run(SECOND, |net| net.extract(beta.0, beta.1).is_some());
    net.core(alpha.0).close(flow);
    net.core(beta.0).close(theirs);
    net.idle(SECOND);
    assert_eq!((returned(&mut net, alpha), returned(&mut net, beta)), (vec![], vec![]));
    nothing_is_left(&mut net, alpha.0);
    nothing_is_left(&mut net, beta.0);
}

/// More closes than the queue of control frames holds.
#[test]
fn ten_thousand_flows_closed_at_once_are_closed() {
    const FLOWS: usize = 10_000;
    let mut net = Net::new(7);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    net.connect_many(alpha, here, "beta", FLOWS);
    net.events(beta);
    net.core(alpha).shut_down();
    net.idle(100 * MS);
    let ended = net.events(beta).into_iter().filter(|event| matches!(event, Event::Ended(..))).count();
    assert_eq!(ended, FLOWS);
    nothing_is_left(&mut net, alpha);
    nothing_is_left(&mut net, beta);
}

/// The transport reports that a process has ended.
#[test]
fn a_peer_that_has_gone_is_given_up_at_once_and_no_other() {
    let (mut net, [alpha, beta], flow, _) = pair(9);
    let (gamma, there) = net.node("gamma");
    let kept = net.connect(gamma, there, "alpha");
    let closed = net.connect(alpha.0, alpha.1, "beta");
    net.events(alpha.0);
    net.nodes[beta.0] = None;
    net.send(alpha.0, flow, Class::Request, 5, b"").unwrap();
    net.drain();
    net.core(alpha.0).close(closed);
    let place = net.core(alpha.0).address(flow).expect("open");
    net.core(alpha.0).on_peer_gone(place);
    let core = net.core(alpha.0);
    assert_eq!((core.state(flow), core.closing_flows()), (FlowState::Ended(ReturnReason::Unreachable), 0));
    assert!(core.peers().all(|peer| peer.address != place), "the next node with its name is a new one");
    assert_eq!(returned(&mut net, alpha), [(5, Fate::Unknown)]);
    assert_eq!(ended(&mut net, alpha.0), Some((ReturnReason::Unreachable, [0, 0])));
    let sent = net.sent;
    net.drain();
    assert_eq!(net.sent, sent, "there is no peer to notify");
    assert!(net.is_open(gamma, kept));
    net.core(gamma).close(kept);
    net.core(alpha.0).close(flow);
    net.idle(SECOND);
    nothing_is_left(&mut net, alpha.0);
}

/// Clients are killed while nothing is in flight.
#[test]
fn killed_peers_are_given_up_and_leave_nothing() {
    const CLIENTS: usize = 20;
    const FLOWS: usize = 100;
    let mut net = Net::new(8);
    let (server, _) = net.node("server");
    let mut clients = vec![];
    for n in 0..CLIENTS {
        let (client, endpoint) = net.node(&format!("client{n}"));
        for _ in 0..FLOWS {
            net.connect(client, endpoint, "server");
        }
        clients.push(client);
    }
    let (lives, survivor) = net.node("survivor");
    let kept = net.connect(lives, survivor, "server");
    net.idle(SECOND);
    let accepted = net.events(server).len();
    assert!(accepted > CLIENTS * FLOWS);
    clients.iter().for_each(|&client| net.nodes[client] = None);
    net.idle(15 * SECOND);
    assert_eq!(ended(&mut net, server), None, "they may only be descheduled");
    net.idle(20 * SECOND);
    let ended = net.events(server).into_iter().filter(|event| matches!(event, Event::Ended(..))).count();
    assert_eq!(ended, CLIENTS * FLOWS);
    assert!(net.is_open(lives, kept), "it is only idle");
    net.core(lives).close(kept);
    net.idle(SECOND);
    nothing_is_left(&mut net, server);
}
