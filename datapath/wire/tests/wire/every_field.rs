//! The fields of the source address, each through all of its values.

use am_wire::frame::{self, LinkAddresses};
use am_wire::steer::{Decision, SteeringTable, steer};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind, Reason};

use crate::any::Message;

const OWN: Address = Address([0x02, 0, 0, 0, 0, 2]);
const LINK: LinkAddresses =
    LinkAddresses { to: OWN, from: Address([0x02, 0, 0, 0, 0, 1]), ethertype: EtherType::DEFAULT };

fn bytes(framing: Framing, header: Header) -> Vec<u8> {
    Message { framing, link: LINK, header, body: vec![], piggyback: None }.emit()
}

fn request(flow: Flow) -> Header {
    Header { kind: Kind::Request, flow, nonce: 0, handler: 0, words: 0, seq: 0 }
}

fn flows() -> impl Iterator<Item = Flow> {
    (0..Flow::COUNT as u16).map(|id| Flow::new(id).unwrap())
}

#[test]
fn every_flow_goes_to_its_socket_and_no_other() {
    let mut table = SteeringTable::new(EtherType::DEFAULT, OWN);
    for framing in Framing::ALL {
        for flow in flows().skip(1) {
            let frame = bytes(framing, request(flow));
            assert_eq!(steer(&frame, &table), Decision::Drop(Reason::NoFlow));
            let socket = flow.id() as u8 % 255;
            table.flows[flow.index()] = socket + 1;
            assert_eq!(steer(&frame, &table), Decision::Socket(socket));
            assert_eq!(frame::parse(&frame, EtherType::DEFAULT).unwrap().header.flow, flow);
            table.flows[flow.index()] = 0;
        }
    }
}

#[test]
fn every_sequence_number_that_bare_carries() {
    let flow = Flow::new(0x2aaa).unwrap();
    for seq in 0..1 << Framing::Bare.seq_bits() {
        let header = Header { seq, ..request(flow) };
        assert_eq!(frame::parse(&bytes(Framing::Bare, header), EtherType::DEFAULT).unwrap().header, header);
    }
}

#[test]
fn every_handler_of_both_classes() {
    for framing in Framing::ALL {
        for kind in [Kind::Request, Kind::Reply] {
            for handler in 0..=u8::MAX {
                let header = Header { kind, handler, ..request(Flow::new(1).unwrap()) };
                assert_eq!(frame::parse(&bytes(framing, header), EtherType::DEFAULT).unwrap().header, header);
            }
        }
    }
}

/// Flow 0 is for control frames, and control frames are for flow 0.
#[test]
fn control_frames_and_flow_zero_belong_together() {
    let table =
        SteeringTable { flows: [1; Flow::COUNT], node_socket: 3, ..SteeringTable::new(EtherType::DEFAULT, OWN) };
    for framing in Framing::ALL {
        for kind in [Kind::Request, Kind::Reply, Kind::Ack, Kind::Control, Kind::Reject, Kind::Put, Kind::Get] {
            for flow in [Flow::NODE, Flow::new(1).unwrap()] {
                let frame = bytes(framing, Header { kind, ..request(flow) });
                let belongs = (kind == Kind::Control) == (flow == Flow::NODE);
                let taken = if flow == Flow::NODE { Decision::Control(3) } else { Decision::Socket(0) };
                let expected = if belongs { taken } else { Decision::Drop(Reason::NodeFlow) };
                assert_eq!(steer(&frame, &table), expected, "{framing} {kind:?} on {flow:?}");
            }
        }
    }
}

/// All 4096 values of the form and the handler field of `bare`.
#[test]
fn every_form_is_known_or_dropped() {
    let table = SteeringTable { flows: [1; Flow::COUNT], ..SteeringTable::new(EtherType::DEFAULT, OWN) };
    for form in 0..16u64 {
        for code in 0..=u8::MAX {
            let mut frame = bytes(Framing::Bare, request(Flow::new(5).unwrap()));
            let bits = form << 41 | 5 << 27 | (code as u64) << 19;
            let source = bits >> 40 << 42 | 0x02 << 40 | bits & ((1 << 40) - 1);
            frame[6..12].copy_from_slice(&Address::from_u64(source).0);
            let expected = match (form, code) {
                (0..=5 | 8..=13, _) | (7, 0 | 2..=6) => Decision::Socket(0),
                (7, 1) => Decision::Drop(Reason::NodeFlow),
                _ => Decision::Drop(Reason::Kind),
            };
            assert_eq!(steer(&frame, &table), expected, "form {form} code {code}");
        }
    }
}

/// Every first byte of a source: group and universal addresses carry no
/// header, and of the four versions one is unknown.
#[test]
fn every_first_byte_of_a_source() {
    let table = SteeringTable { flows: [1; Flow::COUNT], ..SteeringTable::new(EtherType::DEFAULT, OWN) };
    for first in 0..=u8::MAX {
        let mut frame = bytes(Framing::Bare, request(Flow::new(5).unwrap()));
        frame[6] = first;
        let decision = steer(&frame, &table);
        if first & 3 != 2 {
            assert_eq!(decision, Decision::Drop(Reason::Source));
        } else if first >> 6 == 2 {
            assert_eq!(decision, Decision::Drop(Reason::Version));
        } else {
            assert!(!matches!(decision, Decision::Drop(Reason::Source | Reason::Version)));
        }
    }
}
