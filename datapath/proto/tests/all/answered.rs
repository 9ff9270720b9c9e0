//! An answered request never comes back, whatever happens to its flow afterwards.

use std::time::Duration;

use crate::harness::{Loss, Net};
use am_wire::Class;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_answered_request_never_comes_back() {
    never_comes_back(Loss::None);
}

/// The peer dies after its replies have left and before its acknowledgement, or only the acknowledgement is lost.
#[test]
fn an_answered_request_without_acknowledgement_never_comes_back() {
    never_comes_back(Loss::Acks);
}

fn never_comes_back(loss: Loss) {
    for (window, payload, at_once) in
        [(1, 0, 1), (1, 1000, 1), (64, 0, 1), (64, 1000, 1), (64, 0, 40), (64, 30, 40), (64, 1000, 40)]
    {
        let mut net = Net::new(window as u64);
        let (alpha, here) = net.node("alpha");
        let mut config = net.config(1, "beta");
        config.window = window;
        let (beta, there) = net.start(config);
        let flow = net.connect(alpha, here, "beta");
        for word in 0..at_once {
            net.send(alpha, flow, Class::Request, word, &vec![7; payload]).unwrap();
        }
        net.loss = loss;
        net.run(SECOND, |net| {
            while net.echo(beta, there) {}
            net.drain();
            net.core(alpha).has_deliveries()
        });
        let answered = std::iter::from_fn(|| net.extract(alpha, here)).count();
        assert!(answered > 0);
        net.loss = Loss::All;
        net.idle(60 * SECOND);
        let returned = std::iter::from_fn(|| net.core(alpha).poll_returned(here)).count();
        assert!(answered + returned <= at_once as usize, "{window} {payload}: {answered} answered, {returned} back");
    }
}

/// A reply that is too long for an acknowledgement needs no second frame: it says itself that its request was handled.
#[test]
fn long_replies_bring_no_acknowledgement_each() {
    let mut net = Net::new(7);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    let before = net.core(beta).counters().acks_sent;
    for word in 0..320 {
        net.send(alpha, flow, Class::Request, word, &[7; 100]).unwrap();
        net.run(SECOND, |net| net.echo(beta, there));
        net.run(SECOND, |net| net.extract(alpha, here).is_some());
    }
    let sent = net.core(beta).counters().acks_sent - before;
    assert!((10..=40).contains(&sent), "one for 32 requests, or after a while: {sent}");
    assert_eq!(net.core(alpha).counters().retransmitted, 0);
}
