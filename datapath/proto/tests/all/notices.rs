//! A node learns that its half of a flow is useless, so that nothing is kept for a peer that has gone.

use std::time::Duration;

use crate::harness::{Buf, MAX_FRAME, Net, name};
use am_proto::{Config, Event, FlowEnd, FlowId, FlowState, Peer, ReturnReason};
use am_wire::{Buffer, Class};

const SECOND: Duration = Duration::from_secs(1);

/// The flows that the node accepted; and those that ended, and why.
fn accepted_and_ended(net: &mut Net, at: usize) -> (Vec<FlowId>, Vec<(FlowId, ReturnReason)>) {
    let (mut accepted, mut ended) = (vec![], vec![]);
    for event in net.events(at) {
        match event {
            Event::Accepted(_, flow, _) => accepted.push(flow),
            Event::Ended(_, flow, FlowEnd { reason, .. }) => ended.push((flow, reason)),
            _ => (),
        }
    }
    (accepted, ended)
}

#[test]
fn a_late_accept_is_answered_with_closed() {
    let mut net = Net::new(1);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.events(beta);
    let (before, now) = (net.core(beta).granted(), net.now);
    let flow = net.core(alpha).connect(now, here, (name("beta"), name("app"), 7), true).unwrap();
    net.drain();
    net.core(alpha).close(flow);
    assert_eq!(net.core(alpha).state(flow), FlowState::Unknown);
    net.idle(SECOND);
    let (accepted, ended) = accepted_and_ended(&mut net, beta);
    assert_eq!(accepted.len(), 1, "the question was in flight");
    assert_eq!(ended, [(accepted[0], ReturnReason::Closed)]);
    assert_eq!(net.core(beta).granted(), before, "its credits are free again");
}

#[test]
fn a_duplicate_accept_closes_nothing() {
    let mut net = Net::new(2);
    net.faults.duplicate = 1.0;
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    assert_eq!(accepted_and_ended(&mut net, beta).1, []);
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    net.run(SECOND, |net| net.extract(beta, there).is_some());
}

#[test]
fn an_unreachable_peer_is_notified_when_it_returns() {
    let mut net = Net::new(3);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.events(beta);
    // Descheduled, as under a debugger.
    let away = net.nodes[beta].take();
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    let core = net.core(alpha);
    let mut last = vec![];
    while core.state(flow) != FlowState::Ended(ReturnReason::Unreachable) {
        let now = core.sleep_until();
        core.on_timeout(now);
        last.clear();
        let mut fresh = || Some(Buf::fresh(MAX_FRAME));
        while let Some(transmit) = core.poll_transmit(&mut fresh) {
            last.push(transmit.frame);
        }
        core.run_deferred(now);
    }
    assert!(core.poll_returned(here).is_some(), "what it sent came back");
    net.nodes[beta] = away;
    last.iter().for_each(|frame| net.core(beta).on_frame(Buf::of(frame.bytes())));
    assert!(matches!(accepted_and_ended(&mut net, beta).1[..], [(_, ReturnReason::Closed)]));
}

/// The last notice was lost, and neither side has anything to send.
#[test]
fn a_node_that_missed_the_notice_asks() {
    for closer in [0, 1] {
        let mut net = Net::new(4);
        let (alpha, here) = net.node("alpha");
        let (beta, there) = net.node("beta");
        let flow = net.connect(alpha, here, "beta");
        net.send(alpha, flow, Class::Request, 1, b"").unwrap();
        let mut theirs = None;
        net.run(SECOND, |net| {
            theirs = net.extract(beta, there);
            theirs.is_some()
        });
        net.idle(SECOND);
        [alpha, beta].into_iter().for_each(|at| drop(net.events(at)));
        net.core(closer).close([flow, theirs.as_ref().unwrap().flow][closer]);
        net.faults.drop = 1.0;
        net.idle(SECOND);
        net.faults.drop = 0.0;
        net.idle(SECOND);
        assert_eq!(accepted_and_ended(&mut net, 1 - closer).1, []);
        net.idle(15 * SECOND);
        assert!(matches!(accepted_and_ended(&mut net, 1 - closer).1[..], [(_, ReturnReason::Closed)]));
    }
}

#[test]
fn a_quiet_flow_costs_few_frames_and_stays_open() {
    let mut net = Net::new(5);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    let before = net.sent;
    // Descheduled, as under a debugger, but not for long enough to count as unreachable.
    for _ in 0..10 {
        let away = net.nodes[beta].take();
        net.idle(12 * SECOND);
        net.nodes[beta] = away;
        net.idle(8 * SECOND);
    }
    // Each node sends a beacon and a question in five seconds.
    assert!(net.sent - before < 2 * 2 * 200 / 5 + 10, "{}", net.sent - before);
    assert_eq!((accepted_and_ended(&mut net, alpha).1, accepted_and_ended(&mut net, beta).1), (vec![], vec![]));
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    net.run(SECOND, |net| net.extract(beta, there).is_some());
}

/// The asking node has not received the answer yet. That is no reason to end the flow.
#[test]
fn a_lost_accept_is_repeated() {
    let mut net = Net::new(6);
    let (alpha, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.keepalive = Duration::from_millis(8);
    let (beta, _) = net.start(config);
    net.connect(alpha, here, "beta");
    net.idle(SECOND);
    [alpha, beta].into_iter().for_each(|at| drop(net.events(at)));
    let now = net.now;
    let flow = net.core(alpha).connect(now, here, (name("beta"), name("app"), 7), true).unwrap();
    net.drain();
    net.faults.drop = 1.0;
    net.idle(Duration::from_millis(1));
    net.faults.drop = 0.0;
    let (accepted, _) = accepted_and_ended(&mut net, beta);
    assert_eq!((accepted.len(), net.core(alpha).state(flow)), (1, FlowState::Connecting), "the answer is lost");
    net.idle(Duration::from_millis(2));
    assert!(net.is_open(alpha, flow), "answered again before it was asked again");
    net.idle(SECOND);
    assert_eq!(accepted_and_ended(&mut net, beta), (vec![], vec![]));
}

/// The peer was asked as its earlier run, and accepted as its new one.
#[test]
fn a_flow_accepted_by_a_later_run_ends_on_both_sides() {
    let mut net = Net::new(7);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.restart(beta, "beta");
    net.faults.drop = 1.0;
    net.drain();
    net.faults.drop = 0.0;
    let &Config { node, incarnation, name, address, .. } = net.core(alpha).config();
    net.core(beta).add_peer(Peer { node, incarnation, name, address });
    let flow = net.connect(alpha, here, "beta");
    net.events(beta);
    // Its next beacon names the run.
    net.run(10 * SECOND, |net| net.core(alpha).state(flow) == FlowState::Ended(ReturnReason::Restarted));
    net.idle(Duration::from_millis(1));
    assert!(matches!(accepted_and_ended(&mut net, beta).1[..], [(_, ReturnReason::Closed)]));
}

/// More flows than one round asks about.
#[test]
fn each_of_many_quiet_flows_is_asked_about() {
    const FLOWS: usize = 1300;
    let mut net = Net::new(8);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flows = net.connect_many(alpha, here, "beta", FLOWS);
    flows.iter().for_each(|flow| net.core(alpha).close(*flow));
    net.faults.drop = 1.0;
    net.idle(SECOND);
    net.faults.drop = 0.0;
    net.events(beta);
    net.idle(20 * SECOND);
    assert_eq!(accepted_and_ended(&mut net, beta).1.len(), FLOWS);
}

/// At whatever moment it is killed, and however the keepalive rounds fall.
#[test]
fn a_killed_peer_is_given_up_within_five_quarters_of_the_keepalive() {
    for seed in 0..100 {
        let mut net = Net::new(seed);
        let (alpha, here) = net.node("alpha");
        let (beta, _) = net.node("beta");
        net.connect(alpha, here, "beta");
        net.idle(Duration::from_millis(97 * seed));
        net.nodes[beta] = None;
        // Its last frame arrived a quarter earlier, at the earliest.
        net.idle(15 * SECOND);
        assert_eq!(accepted_and_ended(&mut net, alpha).1, [], "seed {seed}");
        // A flow that was never used counts as heard until the deadline of its set-up.
        let patience = net.core(alpha).config().patience;
        net.idle(10 * SECOND + patience);
        assert!(matches!(accepted_and_ended(&mut net, alpha).1[..], [(_, ReturnReason::Unreachable)]), "seed {seed}");
    }
}
