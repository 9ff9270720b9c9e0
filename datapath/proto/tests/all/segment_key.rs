//! A segment with a key: those who have it talk, and a stranger takes no name and ends no connection, whatever it has
//! recorded.

use std::time::Duration;

use crate::harness::{Buf, Net, Wiring, name};
use am_proto::{Command, EndpointId, FlowId, FlowState, ReturnReason, SegmentKey};
use am_wire::control::{Control, Incarnation};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Class, EtherType, Framing, Kind};

const KEY: SegmentKey = SegmentKey::new([7; 32]);
const SECOND: Duration = Duration::from_secs(1);

fn start(net: &mut Net, named: &str, key: Option<SegmentKey>) -> (usize, EndpointId) {
    let at = net.nodes.len();
    let mut config = net.config(at, named);
    config.key = key;
    net.start(config)
}

/// Two nodes with the key, and an open flow from the first to the second. All frames are recorded.
fn session(wiring: Wiring) -> (Net, [EndpointId; 2], FlowId) {
    let mut net = Net::new(1);
    (net.wiring, net.log) = (wiring, Some(vec![]));
    let (_, asks) = start(&mut net, "alpha", Some(KEY));
    let (_, serves) = start(&mut net, "beta", Some(KEY));
    let flow = net.connect(0, asks, "beta");
    (net, [asks, serves], flow)
}

/// The control frames that were recorded: receiver and bytes.
fn recorded(net: &Net) -> Vec<(usize, Vec<u8>)> {
    let is_control =
        |bytes: &[u8]| frame::parse(bytes, EtherType::DEFAULT).is_ok_and(|parsed| parsed.header.kind == Kind::Control);
    net.log.iter().flatten().filter(|(_, bytes)| is_control(bytes)).cloned().collect()
}

fn unauthenticated(net: &mut Net) -> u64 {
    (0..net.nodes.len()).map(|at| net.core(at).counters().control_unauthenticated).sum()
}

/// Messages go to and fro.
fn exchange(net: &mut Net, flow: FlowId, count: u64) {
    for word in 0..count {
        net.run(SECOND, |net| net.send(0, flow, Class::Request, word, b"").is_ok());
    }
    net.run(SECOND, |net| !net.core(0).has_unacknowledged(flow));
}

/// The same frame with other addresses and another body.
fn rebuilt(bytes: &[u8], to: Address, from: Address, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let parsed = frame::parse(bytes, EtherType::DEFAULT).unwrap();
    let mut body = parsed.payload.to_vec();
    change(&mut body);
    let mut space = [0; 2048];
    frame::body(&mut space, parsed.framing, body.len()).unwrap().copy_from_slice(&body);
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let length = frame::emit(&mut space, parsed.framing, &link, &parsed.header, body.len(), None).unwrap();
    space[..length].to_vec()
}

fn addresses(bytes: &[u8]) -> (Address, Address) {
    (Address(bytes[..6].try_into().unwrap()), Address(bytes[6..12].try_into().unwrap()))
}

#[test]
fn nodes_with_the_key_talk_over_every_network() {
    for (wiring, framing) in
        [(Wiring::Cable, Framing::Bare), (Wiring::Switch, Framing::Split), (Wiring::SpoofFilter, Framing::Plain)]
    {
        let (mut net, _, flow) = session(wiring);
        assert!(matches!(net.core(0).state(flow), FlowState::Open { framing: found, .. } if found == framing));
        exchange(&mut net, flow, 50);
        net.core(0).close(flow);
        net.idle(SECOND);
        assert_eq!((net.core(0).state(flow), unauthenticated(&mut net)), (FlowState::Unknown, 0), "{wiring:?}");
    }
}

#[test]
fn nodes_with_another_key_or_none_do_not_talk_and_both_say_so() {
    for other in [None, Some(SegmentKey::new([8; 32]))] {
        let mut net = Net::new(2);
        let (_, asks) = start(&mut net, "alpha", Some(KEY));
        start(&mut net, "beta", other);
        let now = net.now;
        let flow = net.core(0).connect(now, asks, (name("beta"), name("app"), 7), true).unwrap();
        net.idle(5 * SECOND);
        assert_eq!(net.core(0).state(flow), FlowState::Ended(ReturnReason::Unreachable));
        for at in 0..2 {
            assert_eq!(net.core(at).peers().count(), 0);
            assert!(net.core(at).has_unauthenticated() && net.core(at).counters().control_unauthenticated > 1);
        }
    }
}

#[test]
fn a_frame_with_a_missing_wrong_or_moved_code_changes_nothing() {
    let (mut net, _, flow) = session(Wiring::Switch);
    net.core(1).say_farewell();
    net.idle(SECOND);
    let (stranger, mut forged) = (Address([2, 0, 0, 0, 9, 9]), 0);
    for (receiver, bytes) in recorded(&net) {
        let (to, from) = addresses(&bytes);
        let parsed = frame::parse(&bytes, EtherType::DEFAULT).unwrap();
        let (control, content, rest) = Control::parse_with_auth_code(parsed.payload).unwrap();
        let (content, is_plain) = (content.len(), parsed.framing == Framing::Plain);
        assert!(rest.len() >= Control::AUTH_CODE_BYTES);
        let without_code = rebuilt(&bytes, to, from, |body| body.truncate(content));
        let damaged = rebuilt(&bytes, to, from, |body| body[content + 15] ^= 1);
        let changed = rebuilt(&bytes, to, from, |body| body[content - 1] ^= 1);
        let moved = rebuilt(&bytes, to, stranger, |_| ());
        let to_another = rebuilt(&bytes, Address([2, 0, 0, 0, 1, 7]), from, |_| ());
        for (what, frame) in [without_code, damaged, changed, to_another, moved].into_iter().enumerate() {
            if what == 4 && !is_plain {
                continue;
            }
            let before = net.core(receiver).counters().clone();
            net.core(receiver).on_frame(Buf::of(&frame));
            let after = net.core(receiver).counters().clone();
            let malformed = after.dropped.iter().sum::<u64>() - before.dropped.iter().sum::<u64>();
            let refused = after.control_unauthenticated - before.control_unauthenticated + malformed;
            assert_eq!((refused, after.control_received), (1, before.control_received), "{what} {control:?}");
            forged += 1;
        }
    }
    assert!(forged > 50, "{forged}");
    exchange(&mut net, flow, 10);
}

#[test]
fn what_was_recorded_ends_no_connection_and_takes_no_name() {
    let (mut net, [asks, serves], first) = session(Wiring::Switch);
    exchange(&mut net, first, 10);
    // Every kind of control frame: closes from both sides, and keepalives.
    net.core(0).close(first);
    net.idle(SECOND);
    let second = net.connect(0, asks, "beta");
    net.idle(30 * SECOND);
    net.core(1).close_endpoint(serves, &[]);
    net.idle(SECOND);
    assert_eq!(net.core(0).state(second), FlowState::Ended(ReturnReason::Closed));
    net.core(1).add_endpoint(name("app"), 7).unwrap();
    let third = net.connect(0, asks, "beta");
    let old = recorded(&net);
    let codes: std::collections::BTreeSet<u8> =
        old.iter().map(|(_, bytes)| frame::parse(bytes, EtherType::DEFAULT).unwrap().payload[0]).collect();
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7, 8, 9]);
    for (receiver, bytes) in &old {
        net.core(*receiver).on_frame(Buf::of(bytes));
        net.idle(Duration::from_millis(20));
        assert!(net.is_open(0, third), "{bytes:x?}");
    }
    exchange(&mut net, third, 10);
    // A new run of beta: the frames of the earlier one take nothing back.
    net.nodes[1] = None;
    let mut config = net.config(1, "beta");
    (config.key, config.incarnation) = (Some(KEY), Incarnation(u64::MAX));
    let served = am_proto::Core::new(config, net.now);
    net.nodes[1] = Some(served);
    net.core(1).add_endpoint(name("app"), 7).unwrap();
    net.idle(SECOND);
    let fourth = net.connect(0, asks, "beta");
    for (receiver, bytes) in &old {
        net.core(*receiver).on_frame(Buf::of(bytes));
        net.idle(Duration::from_millis(20));
        assert!(net.is_open(0, fourth), "{bytes:x?}");
    }
    net.idle(SECOND);
    assert!(net.core(0).peers().all(|peer| peer.incarnation == Incarnation(u64::MAX)));
    exchange(&mut net, fourth, 10);
}

#[test]
fn rejects_have_a_code_and_the_driver_makes_none() {
    let mut net = Net::new(3);
    let (_, asks) = start(&mut net, "alpha", Some(KEY));
    let mut config = net.config(1, "beta");
    (config.key, config.receive_frames) = (Some(KEY), 4);
    let (_, served) = net.start(config);
    let mut flows = net.connect_many(0, asks, "beta", 8);
    net.log = Some(vec![]);
    for flow in &flows {
        while net.send(0, *flow, Class::Request, 1, b"").is_ok() {}
    }
    net.idle(Duration::from_millis(3));
    let commands: Vec<Command> = std::iter::from_fn(|| net.core(1).poll_command()).collect();
    assert!(!commands.iter().any(|command| matches!(command, Command::RxFull(_))), "{commands:?}");
    assert!(net.core(1).counters().rejects_sent > 0 && net.core(0).counters().rejects_received > 0);
    let is_reject =
        |bytes: &[u8]| frame::parse(bytes, EtherType::DEFAULT).is_ok_and(|parsed| parsed.header.kind == Kind::Reject);
    let rejects: Vec<Vec<u8>> =
        net.log.iter().flatten().filter(|(at, bytes)| *at == 0 && is_reject(bytes)).map(|(_, b)| b.clone()).collect();
    let before = net.core(0).counters().clone();
    for reject in &rejects {
        let (to, from) = addresses(reject);
        let without_code = rebuilt(reject, to, from, |body| body.clear());
        net.core(0).on_frame(Buf::of(&without_code));
    }
    let after = net.core(0).counters().clone();
    assert_eq!(after.control_unauthenticated - before.control_unauthenticated, rejects.len() as u64);
    assert_eq!((after.rejects_received, after.rejects_stale), (before.rejects_received, before.rejects_stale));
    // In the end all arrive.
    let mut arrived = 0;
    net.run(30 * SECOND, |net| {
        while net.extract(1, served).is_some() {
            arrived += 1;
        }
        flows.retain(|&flow| net.core(0).has_unacknowledged(flow));
        flows.is_empty()
    });
    assert!(arrived > 4);
}
