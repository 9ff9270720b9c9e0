//! Tags that change at run time: flows made with the old one end, and both sides learn the cause.

use std::time::Duration;

use crate::harness::Net;
use am_proto::{EndpointId, Event, Fate, FlowId, FlowState, ReturnReason};
use am_wire::Class;

const SECOND: Duration = Duration::from_secs(1);
const NEW_TAG: u64 = 99;

/// Alpha's flow to beta, and beta's half of it.
fn pair(seed: u64) -> (Net, [(usize, EndpointId); 2], [FlowId; 2]) {
    let mut net = Net::new(seed);
    let alpha = net.node("alpha");
    let beta = net.node("beta");
    let flow = net.connect(alpha.0, alpha.1, "beta");
    net.idle(Duration::from_millis(10));
    let theirs = net.events(beta.0).into_iter().find_map(|event| match event {
        Event::Accepted(_, flow, _) => Some(flow),
        _ => None,
    });
    (net, [alpha, beta], [flow, theirs.expect("accepted")])
}

fn returned(net: &mut Net, (at, endpoint): (usize, EndpointId)) -> Vec<(ReturnReason, Fate, u64)> {
    std::iter::from_fn(|| net.core(at).poll_returned(endpoint))
        .map(|back| (back.reason, back.fate, back.message.words().at(0)))
        .collect()
}

fn ended(net: &mut Net, at: usize) -> Vec<(ReturnReason, [u32; 2])> {
    let all = net.events(at).into_iter();
    all.filter_map(|event| match event {
        Event::Ended(.., ending) => Some((ending.reason, ending.unhandled)),
        _ => None,
    })
    .collect()
}

#[test]
fn what_was_not_delivered_comes_back_on_both_sides() {
    let (mut net, [alpha, beta], flows) = pair(1);
    for (word, ((at, _), flow)) in [alpha, beta].into_iter().zip(flows).enumerate() {
        net.send(at, flow, Class::Request, word as u64, b"").unwrap();
    }
    net.faults.drop = 1.0;
    net.drain();
    net.faults.drop = 0.0;
    net.core(beta.0).set_tag(beta.1, NEW_TAG);
    net.idle(SECOND);
    for (word, ((at, endpoint), flow)) in [alpha, beta].into_iter().zip(flows).enumerate() {
        assert_eq!(returned(&mut net, (at, endpoint)), [(ReturnReason::Tag, Fate::NotDelivered, word as u64)]);
        assert_eq!(ended(&mut net, at), [(ReturnReason::Tag, [0, 0])]);
        assert_eq!(net.core(at).state(flow), FlowState::Ended(ReturnReason::Tag));
        assert_eq!((net.core(at).kept_messages(), net.core(at).granted()), (0, 0));
    }
}

#[test]
fn what_has_arrived_is_handled_and_does_not_come_back() {
    let (mut net, [alpha, beta], [flow, _]) = pair(2);
    net.send(alpha.0, flow, Class::Request, 7, b"").unwrap();
    net.idle(SECOND);
    net.core(beta.0).set_tag(beta.1, NEW_TAG);
    net.idle(SECOND);
    assert_eq!(net.extract(beta.0, beta.1).map(|message| message.words().at(0)), Some(7));
    assert_eq!(returned(&mut net, alpha), []);
    assert_eq!(ended(&mut net, alpha.0), [(ReturnReason::Tag, [0, 0])]);
}

/// All repetitions of the Close are lost. Alpha learns of the end when it sends.
#[test]
fn the_answer_to_a_late_message_has_the_cause_too() {
    let (mut net, [alpha, beta], [flow, _]) = pair(3);
    net.faults.drop = 1.0;
    net.core(beta.0).set_tag(beta.1, NEW_TAG);
    net.idle(SECOND);
    net.faults.drop = 0.0;
    assert_eq!(net.core(beta.0).closing_flows(), 0);
    net.send(alpha.0, flow, Class::Request, 5, b"").unwrap();
    net.idle(SECOND);
    assert_eq!(returned(&mut net, alpha), [(ReturnReason::Tag, Fate::NotDelivered, 5)]);
}

/// Flows that this side made, and flows that have the new tag.
#[test]
fn other_flows_stay() {
    let (mut net, [alpha, beta], [flow, _]) = pair(4);
    let back = net.connect(beta.0, beta.1, "alpha");
    net.core(beta.0).set_tag(beta.1, 7);
    net.idle(SECOND);
    assert!(net.is_open(alpha.0, flow), "it is the same tag");
    net.core(beta.0).set_tag(beta.1, NEW_TAG);
    net.idle(SECOND);
    assert!(!net.is_open(alpha.0, flow) && net.is_open(beta.0, back));
}
