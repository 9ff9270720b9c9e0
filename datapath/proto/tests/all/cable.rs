//! `auto` takes `bare` between two nodes that are alone, and no longer once a third node is seen.

use std::time::Duration;

use crate::harness::{Buf, Net, name};
use am_proto::{EndpointId, FlowId, FlowState, FramingWhy};
use am_wire::control::{Control, ProbeSeen, Step};
use am_wire::frame::{self};
use am_wire::{Address, EtherType, Framing};

const ALPHA: usize = 0;
const THIRD: Address = Address([0x02, 0, 0, 0, 9, 9]);

fn pair(seed: u64) -> (Net, EndpointId) {
    let mut net = Net::new(seed);
    let (_, here) = net.node("alpha");
    net.node("beta");
    (net, here)
}

fn framing_of(net: &mut Net, flow: FlowId) -> (Framing, FramingWhy) {
    match net.core(ALPHA).state(flow) {
        FlowState::Open { framing, why, .. } => (framing, why),
        other => panic!("{other:?}"),
    }
}

const BARE: (Framing, FramingWhy) = (Framing::Bare, FramingWhy::NothingLearns);
const SHARED: (Framing, FramingWhy) = (Framing::Split, FramingWhy::Shared);

#[test]
fn a_third_node_ends_bare_for_new_flows() {
    let (mut net, here) = pair(1);
    let before = net.connect(ALPHA, here, "beta");
    assert_eq!(framing_of(&mut net, before), BARE);
    net.restart(1, "beta");
    let restarted = net.connect(ALPHA, here, "beta");
    assert_eq!(framing_of(&mut net, restarted), BARE, "another run of the same node is no third");
    net.node("gamma");
    net.idle(Duration::from_millis(10));
    let after = net.connect(ALPHA, here, "beta");
    assert_eq!([framing_of(&mut net, restarted), framing_of(&mut net, after)], [BARE, SHARED]);
}

/// The number of alpha's probe to its own forged address, as beta receives it.
fn learned_probe_id(net: &Net) -> Option<u32> {
    net.log.iter().flatten().find_map(|(_, bytes)| {
        match Control::parse(frame::parse(bytes, EtherType::DEFAULT).ok()?.payload) {
            Ok(Control::Probe(probe)) if probe.step == Step::Learned => Some(probe.id),
            _ => None,
        }
    })
}

fn receive_control(net: &mut Net, from: Address, control: &Control) {
    let to = net.core(ALPHA).config().address;
    net.core(ALPHA).on_frame(Buf::of_control(control, to, from));
}

/// The third node has not sent a beacon yet, or its beacon was lost.
#[test]
fn a_third_node_that_answers_a_probe_ends_bare() {
    let (mut net, here) = pair(2);
    net.log = Some(vec![]);
    let now = net.now;
    let flow = net.core(ALPHA).connect(now, here, (name("beta"), name("app"), 7), true).unwrap();
    net.run(Duration::from_secs(1), |net| learned_probe_id(net).is_some());
    let id = learned_probe_id(&net).unwrap();
    receive_control(&mut net, THIRD, &Control::ProbeSeen(ProbeSeen { id, step: Step::Learned }));
    net.run(Duration::from_secs(1), |net| net.is_open(ALPHA, flow));
    assert_eq!(framing_of(&mut net, flow), SHARED);
}
