//! The path to a peer gets longer or shorter while messages flow.

use std::iter;
use std::time::Duration;

use crate::harness::{Faults, Net};
use am_proto::Command;
use am_wire::Class;

const US: Duration = Duration::from_micros(1);

/// Send `count` requests, four in flight at a time.
fn requests(
    net: &mut Net,
    from: usize,
    flow: am_proto::FlowId,
    (to, there): (usize, am_proto::EndpointId),
    count: u64,
) {
    let (mut sent, mut got) = (0, 0);
    net.run(Duration::from_secs(60), |net| {
        while sent < got + 4 && sent < count && net.send(from, flow, Class::Request, sent, b"").is_ok() {
            sent += 1;
        }
        while net.extract(to, there).is_some() {
            got += 1;
        }
        got == count
    });
}

/// How many messages are sent again over a path of latency `after`, when the latency was `before`.
fn retransmitted_after_change(before: Duration, after: Duration) -> u64 {
    let mut net = Net::new(21);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.latency = before;
    requests(&mut net, alpha, flow, (beta, there), 1000);
    let counters = |net: &mut Net| net.core(alpha).counters().retransmitted;
    let known = counters(&mut net);
    net.latency = after;
    requests(&mut net, alpha, flow, (beta, there), 1000);
    counters(&mut net) - known
}

/// Six time-outs, each twice as long, of four messages, and some that were in flight. Karn's algorithm: a time-out that
/// was too short stays long until a message that was sent only once gives a sample of the new path.
#[test]
fn a_path_that_gets_longer_is_learned() {
    for after in [500 * US, 2_000 * US, 5_000 * US] {
        let again = retransmitted_after_change(5 * US, after);
        assert!(again <= 60, "{again} of 1000 sent again at {after:?}");
    }
}

#[test]
fn a_path_that_gets_shorter_costs_nothing() {
    assert_eq!(retransmitted_after_change(2_000 * US, 5 * US), 0);
}

/// A time-out that stays long must not make losses expensive.
#[test]
fn later_messages_reveal_losses_on_a_long_path() {
    let mut net = Net::new(22);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.latency = 500 * US;
    requests(&mut net, alpha, flow, (beta, there), 100);
    net.faults = Faults { drop: 0.05, ..Faults::default() };
    let start = net.now;
    requests(&mut net, alpha, flow, (beta, there), 4000);
    // A thousand windows of four messages, each a round trip of 1 ms. A loss may cost two more round trips.
    let took = net.now - start;
    assert!(took < Duration::from_millis(2_600), "{took:?}");
}

/// Both sides probe the path before they answer a set-up. That takes a peer on a busy machine a while.
#[test]
fn a_slow_set_up_is_not_taken_for_a_broken_path() {
    let mut net = Net::new(24);
    net.latency = 5_000 * US;
    let (alpha, here) = net.node("alpha");
    net.node("beta");
    net.connect(alpha, here, "beta");
    let mut commands = iter::from_fn(|| net.core(alpha).poll_command());
    assert!(!commands.any(|command| matches!(command, Command::ReportLoss(_))));
}
