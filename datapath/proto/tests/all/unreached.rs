//! The peer answers, but long frames no longer reach it: an MTU was made smaller, or a NIC began to cut.

use std::time::Duration;

use crate::harness::{Faults, Loss, MAX_FRAME, Net};
use am_proto::{FlowState, ReturnReason};
use am_wire::Class;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn messages_that_never_arrive_come_back_and_the_next_flow_has_shorter_frames() {
    let mut net = Net::new(21);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.loss = Loss::LongerThan { node: beta, bytes: 714 };
    let long = vec![7; 1000];
    net.send(alpha, flow, Class::Request, 1, &long).unwrap();
    // Short messages keep arriving, so the peer is not silent.
    let mut sent = 1;
    let begin = net.now;
    while net.is_open(alpha, flow) {
        assert!(net.now - begin < 10 * SECOND, "the message never comes back");
        sent += u64::from(net.send(alpha, flow, Class::Request, 2, &[]).is_ok());
        net.idle(Duration::from_millis(10));
        while net.extract(beta, there).is_some() {}
    }
    assert!(sent > 100, "short messages were acknowledged meanwhile: {sent}");
    let first = net.core(alpha).poll_returned(here).expect("it came back");
    assert_eq!((first.reason, first.message.payload()), (ReturnReason::Unreachable, &long[..]));

    let flow = net.connect(alpha, here, "beta");
    let FlowState::Open { framing, max_body, .. } = net.core(alpha).state(flow) else { panic!("it is open") };
    assert_eq!(max_body, MAX_FRAME / 4 - framing.body_at());
}

/// A rejected message did arrive, so it is not given up.
#[test]
fn a_busy_receiver_keeps_its_flows() {
    let mut net = Net::new(22);
    let (alpha, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 4;
    let (beta, there) = net.start(config);
    let flow = net.connect(alpha, here, "beta");
    let mut sent = 0;
    net.faults = Faults { drop: 0.3, ..Faults::default() };
    for _ in 0..20 {
        while net.send(alpha, flow, Class::Request, sent, &[]).is_ok() {
            sent += 1;
        }
        net.idle(SECOND);
        assert!(net.is_open(alpha, flow));
    }
    let mut arrived = 0;
    net.run(60 * SECOND, |net| {
        while net.extract(beta, there).is_some() {
            arrived += 1;
        }
        arrived == sent
    });
}

/// The server's half ends, too, and with it the client's.
#[test]
fn replies_that_never_arrive_end_the_flow() {
    let mut net = Net::new(23);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    for _ in 0..8 {
        net.send(alpha, flow, Class::Request, 1, &[7; 1000]).unwrap();
    }
    net.idle(Duration::from_millis(10));
    net.loss = Loss::LongerThan { node: alpha, bytes: 714 };
    while net.echo(beta, there) {}
    let begin = net.now;
    while net.is_open(alpha, flow) {
        assert!(net.now - begin < 10 * SECOND, "the message never comes back");
        net.idle(Duration::from_millis(10));
    }
}
