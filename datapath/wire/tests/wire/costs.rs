//! What a framing costs its user, in bytes.

use am_wire::frame::{self, LinkAddresses, MIN_FRAME};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};

use crate::any::Message;

/// The payload of an Ethernet frame.
const MTU: usize = 1500;

fn frame_of(framing: Framing, body: usize) -> Vec<u8> {
    let link =
        LinkAddresses { to: Address::BROADCAST, from: Address([2, 0, 0, 0, 0, 1]), ethertype: EtherType::DEFAULT };
    let flow = Flow::new(1).unwrap();
    let header = Header { kind: Kind::Request, flow, nonce: 1, handler: 2, words: 0, seq: 3 };
    Message { framing, link, header, body: vec![7; body], piggyback: None }.emit()
}

/// Directed Point's claim: 1500 of 1500 bytes are the user's.
#[test]
fn in_bare_the_whole_mtu_is_the_users() {
    let frame = frame_of(Framing::Bare, MTU);
    assert_eq!(frame.len(), 1514);
    assert_eq!(frame::parse(&frame, EtherType::DEFAULT).unwrap().payload, [7; MTU]);
}

#[test]
fn the_header_costs_0_8_and_12_bytes() {
    for (framing, cost) in [(Framing::Bare, 0), (Framing::Split, 8), (Framing::Plain, 12)] {
        assert_eq!(framing.cost(), cost);
        assert_eq!(frame_of(framing, MTU - cost).len(), 1514);
    }
}

/// The smallest frame holds this much; one byte more makes it longer.
#[test]
fn the_smallest_frame_holds_46_38_or_34_bytes() {
    for (framing, holds) in [(Framing::Bare, 46), (Framing::Split, 38), (Framing::Plain, 34)] {
        assert_eq!(frame_of(framing, 0).len(), MIN_FRAME);
        assert_eq!(frame_of(framing, holds).len(), MIN_FRAME);
        assert_eq!(frame_of(framing, holds + 1).len(), MIN_FRAME + 1);
    }
}

/// A piggybacked acknowledgement adds no bytes to a frame whose body is no longer than this: all four
/// words in `bare`, three in the other framings.
#[test]
fn the_trailer_has_room_beside_37_29_or_25_bytes() {
    for (framing, most) in [(Framing::Bare, 37), (Framing::Split, 29), (Framing::Plain, 25)] {
        assert!(frame::has_room_for_piggyback(framing, most) && !frame::has_room_for_piggyback(framing, most + 1));
    }
}
