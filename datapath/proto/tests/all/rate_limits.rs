//! Forged frames that would make a node send to every other node. It does so at a limited rate.

use std::time::Duration;

use crate::harness::{Buf, MAX_FRAME, Net, name};
use am_wire::control::{Beacon, Control, Incarnation, NodeId, Probe, Purpose, Step};
use am_wire::{Address, Flow, Framings};

const ALPHA: usize = 0;

const STRANGER: Address = Address([0x02, 0, 0, 0, 9, 9]);

/// Alpha receives this control frame from a stranger.
fn receive_control(net: &mut Net, control: &Control) {
    net.core(ALPHA).on_frame(Buf::of_control(control, Address::BROADCAST, STRANGER));
}

/// Alpha, which knows this many nodes.
fn alpha_among(nodes: u64) -> Net {
    let mut net = Net::new(1);
    net.node("alpha");
    for node in 100..100 + nodes {
        let beacon = Beacon {
            node: NodeId(node),
            incarnation: Incarnation(1),
            name: name("peer"),
            address: Address::from_u64(2 << 40 | node),
            framings: Framings::ALL,
            max_frame: MAX_FRAME as u32,
            purpose: Purpose::Announce,
        };
        receive_control(&mut net, &Control::Beacon(beacon));
    }
    count_sent(&mut net, Address::BROADCAST);
    net
}

fn count_sent(net: &mut Net, to: Address) -> usize {
    let mut fresh = || Some(Buf::fresh(MAX_FRAME));
    let said = std::iter::from_fn(|| net.core(ALPHA).poll_transmit(&mut fresh));
    said.filter(|transmit| transmit.to == to).count()
}

/// The number of frames to this address in a second, while `forge` acts all the time.
fn in_a_second(nodes: u64, to: Address, forge: impl Fn(&mut Net, u32)) -> usize {
    let mut net = alpha_among(nodes);
    let start = net.now;
    let rounds = 0..1000;
    rounds.fold(0, |said, round| {
        let now = start + Duration::from_millis(u64::from(round));
        net.core(ALPHA).run_deferred(now);
        (0..10).for_each(|number| forge(&mut net, round * 10 + number));
        said + count_sent(&mut net, to)
    })
}

/// A probe from a true address causes a beacon to that address, and no broadcast.
#[test]
fn probes_of_unknown_nodes_cause_few_questions() {
    let probe = |step| {
        move |net: &mut Net, id: u32| {
            receive_control(net, &Control::Probe(Probe { id, node: NodeId(1 << 40 | u64::from(id)), step }));
        }
    };
    let asked = in_a_second(1, STRANGER, probe(Step::True));
    assert!((5000..7000).contains(&asked), "{asked} of 10,000");
    assert_eq!([Step::Forged, Step::Learned, Step::Long].map(|step| in_a_second(1, STRANGER, probe(step))), [0; 3]);
    assert_eq!(in_a_second(1, Address::BROADCAST, probe(Step::True)), 0);
}

#[test]
fn frames_on_unknown_flows_cause_few_broadcasts() {
    let stray = |net: &mut Net, id: u32| net.core(ALPHA).on_unknown_flow(Flow::new(1 + id as u16 % 99).expect("an id"));
    assert_eq!([1, 1000].map(|nodes| in_a_second(nodes, Address::BROADCAST, stray)), [200, 5]);
}

/// Without broadcasts on the network, a broadcast is one frame to each known address.
#[test]
fn many_missing_peers_are_asked_for_with_one_frame() {
    let mut net = Net::new(5);
    let (alpha, here) = net.node("alpha");
    net.drain();
    let (before, now) = (net.sent, net.now);
    for missed in 0..50 {
        net.core(alpha).connect(now, here, (name(&format!("peer{missed}")), name("app"), 7), true).unwrap();
    }
    net.idle(Duration::from_millis(10));
    assert_eq!(net.sent - before, 2, "one at once, and one after four milliseconds");
}

/// The broadcasts of alpha, which knows 64 nodes, in the two seconds in which it asks for 64 others, one after the other. Those are unknown, or known and
/// silent.
fn broadcasts_of_set_ups(are_known: bool) -> usize {
    let mut net = alpha_among(64);
    let start = net.now;
    let here = net.core(ALPHA).add_endpoint(name("here"), 7).expect("room");
    let mut count = 0;
    for ms in 0..2000 {
        let now = start + Duration::from_millis(ms);
        net.core(ALPHA).on_timeout(now);
        if ms % 10 == 0 && ms < 640 {
            let missed = name(&format!("peer{ms}"));
            if are_known {
                let (node, address) = (NodeId::of(&missed), Address::from_u64((2 << 40) + 5000 + ms));
                let peer = am_proto::Peer { node, incarnation: Incarnation(1), name: missed, address };
                net.core(ALPHA).add_peer(peer);
            }
            net.core(ALPHA).connect(now, here, (missed, name("app"), 7), true).unwrap();
        }
        count += count_sent(&mut net, Address::BROADCAST);
    }
    count
}

/// Each of N nodes may ask for N others. A question to all is N frames, and N answers.
#[test]
fn many_set_ups_ask_all_nodes_a_few_times() {
    let [unknown, silent] = [false, true].map(broadcasts_of_set_ups);
    // Five are the beacons of a node that has just started.
    assert!((5..=20).contains(&unknown), "{unknown} for unknown peers");
    assert!((1..=12).contains(&silent), "{silent} for silent peers");
}

/// The transport asks at the added address, and the peer there may be the one that is missed.
#[test]
fn an_added_address_is_asked_before_all_are() {
    let mut net = Net::new(5);
    let (alpha, here) = net.node("alpha");
    net.idle(Duration::from_millis(150));
    let (before, now) = (net.sent, net.now);
    net.core(alpha).on_address_added(now);
    let commands: Vec<_> = std::iter::from_fn(|| net.core(alpha).poll_command()).collect();
    assert!(matches!(commands[..], [am_proto::Command::Introduce]), "{commands:?}");
    net.core(alpha).connect(now, here, (name("missed"), name("app"), 7), true).unwrap();
    net.idle(Duration::from_millis(50));
    assert_eq!(net.sent, before);
    net.idle(Duration::from_millis(100));
    assert!(net.sent > before, "it may be elsewhere");
}

/// A node that was descheduled finds all questions of a peer at once.
#[test]
fn a_peer_gets_few_answers_to_many_questions() {
    let ask = |net: &mut Net, _| {
        let beacon = Beacon {
            node: NodeId(77),
            incarnation: Incarnation(1),
            name: name("asker"),
            address: STRANGER,
            framings: Framings::ALL,
            max_frame: MAX_FRAME as u32,
            purpose: Purpose::Ask,
        };
        receive_control(net, &Control::Beacon(beacon));
    };
    let answers = in_a_second(1, STRANGER, ask);
    assert!((450..=502).contains(&answers), "{answers} answers to 10,000 questions");
}
