//! Beacons that lie, are late, or come from two nodes of one name. None of them cuts two nodes off from each other for
//! good.

use std::time::Duration;

use crate::harness::{Buf, Net, name};
use am_proto::{EndpointId, FlowState, NameConflict, ReturnReason};
use am_wire::control::{Beacon, Control, Incarnation, NodeId, ProbeSeen, Purpose, Step};
use am_wire::frame::{self};
use am_wire::{Address, Buffer, Class, EtherType, Framings};

const SECOND: Duration = Duration::from_secs(1);

const ALPHA: usize = 0;
const BETA: usize = 1;

fn address(at: usize) -> Address {
    Address([0x02, 0, 0, 0, 1, at as u8])
}

/// An address without a node.
const NOWHERE: Address = Address([0x02, 0, 0, 0, 9, 9]);

/// Beta's beacon, as of this run.
fn beacon_of_beta(run: u64) -> Beacon {
    Beacon {
        node: NodeId(BETA as u64 + 1),
        incarnation: Incarnation(run),
        name: name("beta"),
        address: address(BETA),
        framings: Framings::ALL,
        max_frame: 1514,
        purpose: Purpose::Announce,
    }
}

/// Alpha receives this control frame from `from`.
fn receive_control(net: &mut Net, from: Address, control: &Control) {
    net.core(ALPHA).on_frame(Buf::of_control(control, Address::BROADCAST, from));
}

fn receive_beacon(net: &mut Net, beacon: Beacon) {
    receive_control(net, beacon.address, &Control::Beacon(beacon));
}

/// The nonces that alpha wants echoed, and the addresses it sent them to.
fn asked_nonces(net: &mut Net) -> Vec<(Address, u32)> {
    let mut asked = vec![];
    while let Some(transmit) = net.core(ALPHA).poll_transmit(&mut || Some(Buf::fresh(512))) {
        let parsed = frame::parse(transmit.frame.bytes(), EtherType::DEFAULT).unwrap();
        if let Ok(Control::Probe(probe)) = Control::parse(parsed.payload) {
            asked.push((transmit.to, probe.id));
        }
    }
    asked
}

/// Alpha and beta, after their discovery.
fn discovered_pair(seed: u64) -> (Net, EndpointId) {
    let mut net = Net::new(seed);
    let (_, here) = net.node("alpha");
    net.node("beta");
    net.idle(SECOND);
    (net, here)
}

fn run_of(net: &mut Net, node: usize) -> Incarnation {
    net.core(node).config().incarnation
}

/// Two answers, in case one is lost. The nonce proves that a node receives at the address; the beacon says which one.
#[test]
fn a_claim_is_believed_after_both_answers() {
    let mut net = Net::new(9);
    net.node("alpha");
    receive_beacon(&mut net, beacon_of_beta(5));
    let run = |net: &mut Net| net.core(ALPHA).peers().next().unwrap().incarnation;
    receive_beacon(&mut net, beacon_of_beta(9));
    let number =
        asked_nonces(&mut net)[..].try_into().map(|[(to, number)]: [_; 1]| (to == address(BETA)).then_some(number));
    let id = number.expect("one probe").expect("to the claimant");
    let seen = |id| Control::ProbeSeen(ProbeSeen { id, step: Step::Forged });
    receive_control(&mut net, address(BETA), &seen(id));
    assert_eq!(run(&mut net), Incarnation(5), "the answer may come from another node");
    receive_beacon(&mut net, beacon_of_beta(9));
    assert_eq!(run(&mut net), Incarnation(9));
    // Nor without the nonce.
    receive_beacon(&mut net, beacon_of_beta(11));
    receive_control(&mut net, address(BETA), &seen(id));
    receive_beacon(&mut net, beacon_of_beta(11));
    assert_eq!(run(&mut net), Incarnation(9));
}

/// A peer with frames for the earlier run waits for this, so a lossy wire must not make the pauses long.
#[test]
fn a_claim_whose_answers_are_lost_is_asked_about_again_and_again() {
    let mut net = Net::new(8);
    net.node("alpha");
    receive_beacon(&mut net, beacon_of_beta(5));
    let (start, mut asked) = (net.now, 0);
    for ms in (0..10_000).step_by(10) {
        net.core(ALPHA).run_deferred(start + Duration::from_millis(ms));
        receive_beacon(&mut net, beacon_of_beta(9));
        asked += asked_nonces(&mut net).len();
    }
    assert!((40..60).contains(&asked), "asked {asked} times in ten seconds");
}

/// Each forged beacon contradicts what is known, as the genuine one does.
#[test]
fn a_flood_of_forged_claims_hides_no_genuine_one() {
    let mut net = Net::new(10);
    net.node("alpha");
    receive_beacon(&mut net, beacon_of_beta(5));
    receive_beacon(&mut net, beacon_of_beta(9));
    let (_, id) = asked_nonces(&mut net)[0];
    let flood = |net: &mut Net, runs: std::ops::Range<u64>| {
        for run in runs {
            receive_beacon(net, Beacon { address: Address::from_u64(2 << 40 | run), ..beacon_of_beta(run) });
            asked_nonces(net);
        }
    };
    flood(&mut net, 100..200);
    receive_control(&mut net, address(BETA), &Control::ProbeSeen(ProbeSeen { id, step: Step::Forged }));
    // It echoed the nonce, so it is kept before those that echoed nothing.
    flood(&mut net, 200..2000);
    receive_beacon(&mut net, beacon_of_beta(9));
    assert_eq!(net.core(ALPHA).peers().next().unwrap().incarnation, Incarnation(9));
}

/// The number of frames that alpha sends now.
fn count_sent(net: &mut Net) -> usize {
    std::iter::from_fn(|| net.core(ALPHA).poll_transmit(&mut || Some(Buf::fresh(512)))).count()
}

/// Beacons that ask for an answer, each with a different claim: at beta's address, elsewhere, or of unknown nodes.
const FORGED: [fn(u64) -> Beacon; 3] = [
    |run| Beacon { purpose: Purpose::Ask, ..beacon_of_beta(run) },
    |run| Beacon { purpose: Purpose::Ask, address: Address::from_u64(2 << 40 | run), ..beacon_of_beta(run) },
    |run| Beacon {
        purpose: Purpose::Ask,
        node: NodeId(run),
        address: Address::from_u64(2 << 40 | run),
        ..beacon_of_beta(run)
    },
];

/// A hundred thousand in a second. Alpha still answers at the end.
#[test]
fn a_flood_of_forged_claims_draws_few_frames() {
    for forged in FORGED {
        let mut net = Net::new(11);
        net.node("alpha");
        receive_beacon(&mut net, beacon_of_beta(5));
        count_sent(&mut net);
        let (start, mut drawn) = (net.now, 0);
        for round in 0..1000 {
            let now = start + Duration::from_millis(round);
            net.core(ALPHA).run_deferred(now);
            (0..100).for_each(|n| receive_beacon(&mut net, forged(1000 + 100 * round + n)));
            drawn += count_sent(&mut net);
        }
        // Three for a conflict, and one answer to a beacon: 256 and 1,024 at once, 500 and 5,000 in a second.
        assert!((500..3 * 756 + 6024).contains(&drawn), "{drawn} frames");
    }
}

/// Claims of another address are no restarts: they do not use up the limit for restarts.
#[test]
fn a_flood_of_claims_of_other_addresses_hides_no_restart() {
    let (mut net, here) = discovered_pair(12);
    let flow = net.connect(ALPHA, here, "beta");
    let flood =
        |net: &mut Net, runs: std::ops::Range<u64>| runs.for_each(|run| receive_beacon(net, FORGED[1](1000 + run)));
    flood(&mut net, 0..1000);
    net.restart(BETA, "beta");
    for round in 0..300 {
        net.idle(Duration::from_millis(1));
        flood(&mut net, 1000 + 10 * round..1010 + 10 * round);
    }
    assert_eq!(net.core(ALPHA).state(flow), FlowState::Ended(ReturnReason::Restarted));
}

/// A forged later run, at whatever address.
#[test]
fn one_forged_beacon_cuts_no_node_off() {
    for forged in [beacon_of_beta(u64::MAX), Beacon { address: NOWHERE, ..beacon_of_beta(u64::MAX) }, beacon_of_beta(0)]
    {
        let (mut net, here) = discovered_pair(1);
        let flow = net.connect(ALPHA, here, "beta");
        receive_beacon(&mut net, forged);
        receive_beacon(&mut net, forged);
        net.idle(SECOND);
        assert!(net.is_open(ALPHA, flow), "{forged:?} ends an open flow");
        net.connect(ALPHA, here, "beta");
        assert_eq!(net.core(ALPHA).name_conflict(), None, "there is one beta");
        assert!(net.core(ALPHA).counters().claims > 0);
    }
}

/// Then nothing contradicts it at first.
#[test]
fn a_forged_beacon_before_the_genuine_one_cuts_no_node_off() {
    for forged in [beacon_of_beta(u64::MAX), Beacon { address: NOWHERE, ..beacon_of_beta(u64::MAX) }] {
        let mut net = Net::new(2);
        let (_, here) = net.node("alpha");
        receive_beacon(&mut net, forged);
        net.node("beta");
        net.connect(ALPHA, here, "beta");
    }
}

/// Peers are found by name, and the table is by node.
#[test]
fn a_forged_node_of_the_same_name_cuts_no_node_off() {
    let (mut net, here) = discovered_pair(3);
    receive_beacon(&mut net, Beacon { node: NodeId(99), address: NOWHERE, ..beacon_of_beta(u64::MAX) });
    net.connect(ALPHA, here, "beta");
    // Alpha remembers which node does not answer.
    let (now, start) = (net.now, net.sent);
    net.connect(ALPHA, here, "beta");
    assert!(net.now - now < Duration::from_millis(1) && net.sent - start < 10, "{:?}", net.now - now);
}

#[test]
fn a_late_beacon_of_an_earlier_run_changes_nothing() {
    let (mut net, here) = discovered_pair(4);
    let before = beacon_of_beta(run_of(&mut net, BETA).0);
    net.restart(BETA, "beta");
    let flow = net.connect(ALPHA, here, "beta");
    for _ in 0..10 {
        receive_beacon(&mut net, before);
        net.idle(Duration::from_millis(100));
    }
    assert!(net.is_open(ALPHA, flow));
}

#[test]
fn a_node_whose_clock_was_set_back_is_found() {
    let (mut net, here) = discovered_pair(5);
    let flow = net.connect(ALPHA, here, "beta");
    let mut config = net.config(BETA, "beta");
    config.incarnation = Incarnation(0x1);
    let mut core = am_proto::Core::new(config, net.now);
    core.add_endpoint(name("app"), 7).unwrap();
    net.nodes[BETA] = Some(core);
    net.run(10 * SECOND, |net| matches!(net.core(ALPHA).state(flow), FlowState::Ended(_)));
    net.connect(ALPHA, here, "beta");
}

/// Another node named "beta", with the same id.
fn second_beta(net: &mut Net) -> (usize, EndpointId) {
    let mut config = net.config(net.nodes.len(), "beta");
    config.node = NodeId(BETA as u64 + 1);
    net.start(config)
}

#[test]
fn two_nodes_of_one_name_are_reported() {
    let (mut net, here) = discovered_pair(6);
    let flow = net.connect(ALPHA, here, "beta");
    let (second, _) = second_beta(&mut net);
    net.run(10 * SECOND, |net| net.core(ALPHA).name_conflict().is_some());
    let NameConflict { name: of, mut addresses } = net.core(ALPHA).name_conflict().unwrap();
    addresses.sort();
    assert_eq!((of, addresses), (name("beta"), [address(BETA), address(second)]));
    // The flow ends with a reason: its peer is no longer the node of this name.
    assert_eq!(net.core(ALPHA).state(flow), FlowState::Ended(ReturnReason::NameTaken));
    let flow = net.connect(ALPHA, here, "beta");
    assert_eq!(net.core(ALPHA).address(flow), Some(address(second)));
    // Both betas notice the conflict, too.
    net.idle(10 * SECOND);
    assert!([BETA, second].into_iter().all(|node| net.core(node).name_conflict().is_some()));
    assert!(net.is_open(ALPHA, flow), "the later start counts, for as long as it lives");
}

#[test]
fn the_remaining_node_of_two_has_the_name() {
    let (mut net, here) = discovered_pair(7);
    let (second, _) = second_beta(&mut net);
    net.idle(SECOND);
    net.nodes[second] = None;
    let flow = net.connect(ALPHA, here, "beta");
    assert_eq!(net.core(ALPHA).address(flow), Some(address(BETA)));
    net.send(ALPHA, flow, Class::Request, 1, b"").unwrap();
    net.idle(30 * SECOND);
    assert!([ALPHA, BETA].into_iter().all(|node| net.core(node).name_conflict().is_none()), "the conflict is over");
}

/// Two live nodes far away: asking them does not make them ask again and again.
#[test]
fn a_name_conflict_causes_no_flood() {
    let (mut net, _) = discovered_pair(8);
    net.latency = Duration::from_millis(30);
    second_beta(&mut net);
    net.idle(30 * SECOND);
    let start = net.sent;
    net.idle(30 * SECOND);
    let a_second = (net.sent - start) / 30;
    assert!(a_second < 30, "{a_second} frames a second");
}
