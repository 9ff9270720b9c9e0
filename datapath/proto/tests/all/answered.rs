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
