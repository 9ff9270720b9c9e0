//! A transport without room: what it refused goes next, and is counted once.

use std::time::Duration;

use crate::harness::{Buf, Net};
use am_proto::{EndpointId, FlowId};
use am_wire::{Buffer, Class, EtherType, Kind, frame};

const MS: Duration = Duration::from_millis(1);

/// Alpha with a flow to beta, and beta's endpoint.
fn connected(net: &mut Net) -> (FlowId, EndpointId) {
    let (_, here) = net.node("alpha");
    let (_, there) = net.node("beta");
    let flow = net.connect(0, here, "beta");
    net.idle(MS);
    (flow, there)
}

/// Offer the next frame to a transport that has no room. Returns whether there was one.
fn refuse(net: &mut Net, at: usize) -> bool {
    net.core(at).transmit(1, &mut || Some(Buf::fresh(2048)), |_, _| false).is_refused
}

fn numbers(net: &mut Net, there: EndpointId) -> Vec<u64> {
    std::iter::from_fn(|| net.extract(1, there)).map(|message| message.words().at(0)).collect()
}

#[test]
fn refused_messages_go_next_in_order() {
    // One message, and several that share a frame, which the core keeps.
    for count in [1, 5] {
        let mut net = Net::new(3);
        let (flow, there) = connected(&mut net);
        (0..count).for_each(|n| net.send(0, flow, Class::Request, n, b"").unwrap());
        let (before, sent) = (net.core(0).counters().clone(), net.sent);
        assert_eq!([(); 3].map(|()| refuse(&mut net, 0)), [true; 3]);
        net.send(0, flow, Class::Request, count, b"").unwrap();
        net.idle(MS);
        assert_eq!(numbers(&mut net, there), (0..=count).collect::<Vec<_>>());
        let after = net.core(0).counters().clone();
        assert!(after.piggybacks_sent - before.piggybacks_sent <= (net.sent - sent) as u64);
        assert_eq!((after.retransmitted, net.core(0).outstanding(flow, Class::Request)), (before.retransmitted, 0));
    }
}

#[test]
fn an_acknowledgement_that_was_refused_with_its_message_is_due() {
    let mut net = Net::new(4);
    let (flow, there) = connected(&mut net);
    net.send(0, flow, Class::Request, 7, b"").unwrap();
    while !net.echo(1, there) {
        net.idle(Duration::from_micros(1));
    }
    assert!(refuse(&mut net, 1));
    let before = net.core(1).counters().acks_sent;
    net.idle(MS);
    assert_eq!(net.core(1).counters().acks_sent, before, "the reply says it");
    assert!(!net.core(0).has_unacknowledged(flow));
}

/// The kind of the next frame, which the transport takes.
fn take(net: &mut Net, at: usize) -> Option<Kind> {
    let mut kind = None;
    net.core(at).transmit(1, &mut || Some(Buf::fresh(2048)), |_, taken| {
        kind = frame::parse(taken.bytes(), EtherType::DEFAULT).map(|parsed| parsed.header.kind).ok();
        true
    });
    kind
}

#[test]
fn acknowledgements_leave_though_long_messages_fill_the_transport() {
    let mut net = Net::new(5);
    let (flow, there) = connected(&mut net);
    let back = net.connect(1, there, "alpha");
    net.idle(MS);
    net.send(0, flow, Class::Request, 7, b"").unwrap();
    let request = net.core(0).poll_transmit(&mut || Some(Buf::fresh(2048))).unwrap();
    net.core(1).on_frame(request.frame);
    assert!(net.extract(1, there).is_some());
    // The acknowledgement is due, and there are messages that have no room for it.
    let later = net.now + MS;
    net.core(1).run_deferred(later);
    net.core(1).on_timeout(later);
    (0..8).for_each(|n| net.send(1, back, Class::Request, n, &[0; 1400]).unwrap());
    assert_eq!(take(&mut net, 1), Some(Kind::Request));
    assert!(refuse(&mut net, 1));
    assert_eq!(take(&mut net, 1), Some(Kind::Ack));
    let rest: Vec<_> = std::iter::from_fn(|| take(&mut net, 1)).collect();
    assert_eq!(rest, [Kind::Request; 7]);
}
