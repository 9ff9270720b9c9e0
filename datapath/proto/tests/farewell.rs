//! Who is of no use any more hears it, so that nothing is kept for nobody.

mod harness;

use std::time::Duration;

use harness::{Buf, MAX_FRAME, Net, name};
use proto::{Ending, Event, FlowId, FlowState, ReturnReason};
use wire::{Buffer, Class};

const SECOND: Duration = Duration::from_secs(1);

/// The flows that the node has accepted, and that ended, and why.
fn news(net: &mut Net, at: usize) -> (Vec<FlowId>, Vec<(FlowId, ReturnReason)>) {
    let (mut accepted, mut ended) = (vec![], vec![]);
    for event in net.events(at) {
        match event {
            Event::Accepted(_, flow, _) => accepted.push(flow),
            Event::Ended(_, flow, Ending { reason, .. }) => ended.push((flow, reason)),
            _ => (),
        }
    }
    (accepted, ended)
}

#[test]
fn who_accepts_what_nobody_waits_for_any_more_is_told() {
    let mut net = Net::new(1);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.events(beta);
    let (before, now) = (net.core(beta).granted(), net.now);
    let flow = net.core(alpha).connect(now, here, name("beta"), name("app"), 7).unwrap();
    net.drain();
    net.core(alpha).close(flow);
    assert_eq!(net.core(alpha).state(flow), FlowState::Unknown);
    net.idle(SECOND);
    let (accepted, ended) = news(&mut net, beta);
    assert_eq!(accepted.len(), 1, "the question was under way");
    assert_eq!(ended, [(accepted[0], ReturnReason::Closed)]);
    assert_eq!(net.core(beta).granted(), before, "its credits are free again");
}

#[test]
fn an_answer_that_comes_twice_closes_nothing() {
    let mut net = Net::new(2);
    net.faults.duplicate = 1.0;
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    assert_eq!(news(&mut net, beta).1, []);
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    net.run(SECOND, |net| net.extract(beta, there).is_some());
}

#[test]
fn who_is_given_up_hears_it_if_it_can() {
    let mut net = Net::new(3);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.events(beta);
    // Away, as under a debugger.
    let away = net.nodes[beta].take();
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    let core = net.core(alpha);
    let mut last = vec![];
    while core.state(flow) != FlowState::Dead(ReturnReason::Unreachable) {
        let now = core.sleep_until();
        core.on_timeout(now);
        last.clear();
        let mut fresh = || Some(Buf::fresh(MAX_FRAME));
        while let Some(transmit) = core.poll_transmit(&mut fresh) {
            last.push(transmit.frame);
        }
        core.settle(now);
    }
    assert!(core.poll_returned(here).is_some(), "what it sent came back");
    net.nodes[beta] = away;
    last.iter().for_each(|frame| net.core(beta).on_frame(Buf::of(frame.bytes())));
    assert!(matches!(news(&mut net, beta).1[..], [(_, ReturnReason::Closed)]));
}
