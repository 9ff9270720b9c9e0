//! Groups whose members a peer does not all reach, because the peer's frames arrive on the queues of others.

use std::time::Duration;

use crate::harness::{Loss, Net, name};
use am_proto::{EndpointId, FlowId, FlowState};
use am_wire::Class;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than a peer waits for a silent member.
const GIVE_UP: Duration = Duration::from_millis(400);

/// A client, and the members of a group whose first names these in turn, the last one for ever.
fn group(seed: u64, size: u8, mut given: Vec<u8>) -> (Net, EndpointId) {
    let mut net = Net::new(seed);
    let (_, client) = net.node("client");
    net.node("server");
    (1..size).for_each(|number| _ = net.node(&format!("server#{number}")));
    net.core(1).place_peers(Box::new(move |_| if given.len() > 1 { given.remove(0) } else { given[0] }));
    (net, client)
}

/// Connect, send a message, and return the member that got it and how long connecting took.
fn served(net: &mut Net, client: EndpointId) -> (usize, FlowId, Duration) {
    let before = net.now;
    let flow = net.connect(0, client, "server");
    let took = net.now - before;
    net.send(0, flow, Class::Request, 7, b"").unwrap();
    net.idle(10 * SECOND / 1000);
    let members = net.nodes.len();
    let got: Vec<usize> = (1..members).filter(|&at| net.core(at).connection_count() > 0).collect();
    assert_eq!(got.len(), 1, "one member has the connection");
    net.core(0).close(flow);
    net.idle(SECOND / 2);
    (got[0], flow, took)
}

#[test]
fn a_peer_returns_to_the_first_member_if_the_one_that_it_was_given_is_silent() {
    // Frames to the member are lost, or its answers.
    for loss in [Loss::Unicast(0, 2), Loss::Unicast(2, 0)] {
        let (mut net, client) = group(1, 3, vec![1]);
        net.loss = loss;
        let (member, _, took) = served(&mut net, client);
        assert_eq!(member, 1);
        assert!(took < GIVE_UP, "{took:?}");
        // It remembers.
        let (member, _, took) = served(&mut net, client);
        assert_eq!(member, 1);
        assert!(took < GIVE_UP / 10, "{took:?}");
        assert_eq!(net.core(0).counters().members_given_up, 1);
        // Once the member answers again, flows go there.
        net.loss = Loss::None;
        net.idle(SECOND);
        let members: Vec<usize> = [(); 2].map(|()| served(&mut net, client).0).to_vec();
        assert_eq!(members[1], 2, "{members:?}");
    }
}

#[test]
fn a_peer_that_does_not_reach_the_first_member_takes_one_that_it_has_met() {
    for loss in [Loss::Unicast(0, 1), Loss::Unicast(1, 0)] {
        let (mut net, client) = group(2, 3, vec![0]);
        net.loss = loss;
        let (member, _, took) = served(&mut net, client);
        assert!(member == 2 && took < GIVE_UP, "{member}: {took:?}");
    }
}

/// Beacons of the first member do not arrive either, so nothing is known of it.
#[test]
fn a_peer_that_has_never_met_the_first_member_takes_another() {
    let (mut net, client) = group(3, 2, vec![0]);
    net.nodes[1] = None;
    let (member, ..) = served_without_first(&mut net, client);
    assert_eq!(member, 2);
}

fn served_without_first(net: &mut Net, client: EndpointId) -> (usize, FlowId) {
    net.idle(SECOND / 10);
    let flow = net.connect(0, client, "server");
    (if net.core(2).connection_count() == 1 { 2 } else { 0 }, flow)
}

#[test]
fn a_member_that_is_only_slow_is_not_left() {
    let (mut net, client) = group(4, 2, vec![1]);
    net.latency = Duration::from_millis(20);
    let (member, ..) = served(&mut net, client);
    assert_eq!((member, net.core(0).counters().members_given_up), (2, 0));
}

/// The network doubles each frame, so each question arrives twice.
#[test]
fn a_repeated_question_is_placed_once() {
    let (mut net, client) = group(6, 3, vec![1, 2, 1, 2]);
    net.faults.duplicate = 1.0;
    let members = [(); 4].map(|()| served(&mut net, client).0);
    assert_eq!(members, [2, 3, 2, 3]);
}

#[test]
fn a_node_that_is_in_no_group_is_asked_until_the_end() {
    let mut net = Net::new(5);
    let (_, client) = net.node("client");
    net.node("server");
    net.node("server#x");
    net.node("serve#1");
    net.loss = Loss::Unicast(0, 1);
    let now = net.now;
    let flow = net.core(0).connect(now, client, (name("server"), name("app"), 7), true).unwrap();
    net.run(60 * SECOND, |net| net.core(0).state(flow) != FlowState::Connecting);
    assert!(matches!(net.core(0).state(flow), FlowState::Ended(_)), "{:?}", net.core(0).state(flow));
    assert_eq!(net.core(0).counters().members_given_up, 0);
}

/// Frames are lost, doubled and late, and each member but one is silent: there is one connection in the end.
#[test]
fn one_member_is_found_on_a_bad_network() {
    for seed in 0..60 {
        let silent = 1 + seed as usize % 2;
        let (mut net, client) = group(seed, 3, vec![2, 1, 2]);
        net.loss = Loss::Unicast(0, silent);
        net.faults.drop = 0.1;
        net.faults.duplicate = 0.2;
        net.faults.delay = 0.2;
        let now = net.now;
        let flow = net.core(0).connect(now, client, (name("server"), name("app"), 7), true).unwrap();
        net.run(10 * SECOND, |net| net.core(0).state(flow) != FlowState::Connecting);
        assert!(net.is_open(0, flow), "{seed}: {:?}", net.core(0).state(flow));
        net.faults.drop = 0.0;
        net.idle(30 * SECOND);
        let all: Vec<usize> = (1..4).map(|at| net.core(at).connection_count()).collect();
        assert!(all.iter().sum::<usize>() == 1 && all[silent - 1] == 0, "{seed}: {all:?}");
    }
}
