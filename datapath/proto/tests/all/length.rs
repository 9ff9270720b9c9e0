//! The length probe before the first message. No single lost probe decides the result.

use std::time::Duration;

use crate::harness::{Faults, Loss, MAX_FRAME, Net, Wiring, name};
use am_proto::{FlowId, FlowState, FramingChoice, FramingWhy};
use am_wire::{Class, Framing};

const SECOND: Duration = Duration::from_secs(1);

/// The framing and the longest body of a flow from alpha to beta.
fn found_path(net: &mut Net) -> (Framing, FramingWhy, usize) {
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    let FlowState::Open { framing, why, max_body, .. } = net.core(alpha).state(flow) else { panic!("it is open") };
    let payload = vec![7; max_body - 8];
    net.send(alpha, flow, Class::Request, 1, &payload).unwrap();
    let mut got = None;
    net.run(SECOND, |net| {
        got = net.extract(beta, there);
        got.is_some()
    });
    let got = got.unwrap();
    assert_eq!(got.payload(), payload, "the longest arrives");
    let FlowState::Open { framing: back, max_body: most, .. } = net.core(beta).state(got.flow) else {
        panic!("it is open")
    };
    assert_eq!(most + back.body_at(), max_body + framing.body_at(), "replies are as long");
    (framing, why, max_body)
}

#[test]
fn frames_are_shorter_where_long_ones_are_cut() {
    for (between, framing) in
        [(Wiring::Cable, Framing::Bare), (Wiring::Switch, Framing::Split), (Wiring::SpoofFilter, Framing::Plain)]
    {
        let mut net = Net::new(11);
        net.wiring = between;
        // The room that a NIC leaves in a chunk of 2048 bytes.
        net.loss = Loss::LongerThan { node: 1, bytes: 1024 };
        let (found, _, max_body) = found_path(&mut net);
        assert_eq!((found, max_body), (framing, MAX_FRAME / 2 - framing.body_at()), "the next length that passes");
        let shortened: Vec<_> = net.core(0).shortened_peers().map(|(peer, most)| (peer.name, most)).collect();
        assert_eq!(shortened, [(name("beta"), MAX_FRAME / 2)]);
        assert_eq!(net.core(1).shortened_peers().count(), 0, "the other direction carries full length");
    }
}

/// Alpha connects to beta, whose NIC drops long frames, and has probed for a while.
fn connecting_to_a_short_nic() -> (Net, usize, FlowId) {
    let mut net = Net::new(12);
    net.loss = Loss::LongerThan { node: 1, bytes: 1024 };
    let (alpha, here) = net.node("alpha");
    net.node("beta");
    let now = net.now;
    let flow = net.core(alpha).connect(now, here, (name("beta"), name("app"), 7), true).unwrap();
    net.idle(Duration::from_millis(150));
    (net, alpha, flow)
}

#[test]
fn a_receiver_that_reopens_its_nic_in_time_gets_long_frames() {
    let (mut net, alpha, flow) = connecting_to_a_short_nic();
    assert_eq!(net.core(alpha).state(flow), FlowState::Connecting);
    net.loss = Loss::None;
    net.run(SECOND, |net| net.core(alpha).state(flow) != FlowState::Connecting);
    let FlowState::Open { framing, max_body, .. } = net.core(alpha).state(flow) else { panic!("it is open") };
    assert_eq!(max_body, MAX_FRAME - framing.body_at());
    assert_eq!(net.core(alpha).shortened_peers().count(), 0);
}

/// A NIC that is reopened takes its link down for seconds.
#[test]
fn a_receiver_that_is_silent_while_it_reopens_its_nic_is_waited_for() {
    let (mut net, alpha, flow) = connecting_to_a_short_nic();
    net.loss = Loss::All;
    net.idle(Duration::from_millis(1000));
    net.loss = Loss::None;
    net.run(SECOND, |net| net.core(alpha).state(flow) != FlowState::Connecting);
    let FlowState::Open { framing, max_body, .. } = net.core(alpha).state(flow) else { panic!("it is open") };
    assert_eq!(max_body, MAX_FRAME - framing.body_at());
}

#[test]
fn the_length_is_probed_with_a_configured_framing() {
    let mut net = Net::new(13);
    net.loss = Loss::LongerThan { node: 1, bytes: 1024 };
    let ends = ["alpha", "beta"].map(|named| {
        let mut config = net.config(net.nodes.len(), named);
        config.framing = FramingChoice::Fixed(Framing::Split);
        net.start(config)
    });
    let flow = net.connect(ends[0].0, ends[0].1, "beta");
    let FlowState::Open { max_body, .. } = net.core(0).state(flow) else { panic!("it is open") };
    assert_eq!(max_body, MAX_FRAME / 2 - Framing::Split.body_at());
}

/// A peer that sends shorter frames itself does not count as one that cuts them.
#[test]
fn a_peer_with_a_smaller_mtu_is_no_fault() {
    let mut net = Net::new(14);
    net.loss = Loss::LongerThan { node: 1, bytes: 914 };
    let (alpha, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.max_frame = 914;
    net.start(config);
    let flow = net.connect(alpha, here, "beta");
    let FlowState::Open { framing, max_body, .. } = net.core(alpha).state(flow) else { panic!("it is open") };
    assert_eq!(max_body, 914 - framing.body_at());
    assert_eq!(net.core(alpha).shortened_peers().count(), 0);
}

/// In the lab, some runs chose `plain`, because the peer was too slow for four tries.
#[test]
fn the_same_network_gives_the_same_framing_each_time() {
    let expected = [
        (Wiring::Cable, Framing::Bare, FramingWhy::NothingLearns),
        (Wiring::Switch, Framing::Split, FramingWhy::SwitchLearns),
        (Wiring::SpoofFilter, Framing::Plain, FramingWhy::ForgedDropped),
    ];
    for (between, framing, why) in expected {
        for seed in 0..300 {
            let mut net = Net::new(seed);
            net.wiring = between;
            net.faults = Faults { drop: 0.2, duplicate: 0.05, delay: 0.2 };
            let found = found_path(&mut net);
            assert_eq!(found, (framing, why, MAX_FRAME - framing.body_at()), "{between:?}, seed {seed}");
        }
        let mut slow = Net::new(1);
        (slow.wiring, slow.latency) = (between, Duration::from_millis(40));
        assert_eq!(found_path(&mut slow), (framing, why, MAX_FRAME - framing.body_at()), "{between:?}, slow");
        let mut first = Net::new(2);
        (first.wiring, first.loss) = (between, Loss::FirstProbes(12));
        assert_eq!(
            found_path(&mut first),
            (framing, why, MAX_FRAME - framing.body_at()),
            "{between:?}, first ones lost"
        );
    }
}
