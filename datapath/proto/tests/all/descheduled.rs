//! A node that was descheduled: stopped like a process under a debugger, or waiting for a processor.

use std::time::Duration;

use crate::harness::{Net, name};
use am_proto::{FlowState, ReturnReason};

const PATIENCE: Duration = Duration::from_millis(20);

/// Its patience ends before any answer could arrive.
#[test]
fn a_descheduled_node_asks_again_for_its_flow() {
    for away in [PATIENCE, 100 * PATIENCE] {
        let mut net = Net::new(1);
        let mut config = net.config(0, "alpha");
        config.patience = PATIENCE;
        let (alpha, here) = net.start(config);
        net.node("beta");
        let now = net.now;
        let flow = net.core(alpha).connect(now, here, (name("beta"), name("app"), 7), true).unwrap();
        net.now = net.now + away;
        net.run(Duration::from_secs(1), |net| net.core(alpha).state(flow) != FlowState::Connecting);
        let state = net.core(alpha).state(flow);
        assert!(matches!(state, FlowState::Open { .. }), "after {away:?}: {state:?}");
    }
}

/// It still gives up if there is no peer.
#[test]
fn a_descheduled_node_does_not_ask_for_ever() {
    let mut net = Net::new(2);
    let mut config = net.config(0, "alpha");
    config.patience = PATIENCE;
    let (alpha, here) = net.start(config);
    let now = net.now;
    let flow = net.core(alpha).connect(now, here, (name("nobody"), name("app"), 7), true).unwrap();
    net.now = net.now + 100 * PATIENCE;
    net.run(Duration::from_secs(1), |net| net.core(alpha).state(flow) != FlowState::Connecting);
    assert_eq!(net.core(alpha).state(flow), FlowState::Ended(ReturnReason::Unreachable));
}
