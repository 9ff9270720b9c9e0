//! Any bytes as a frame of a program, and as its first packet.

use am_wire::control::{Beacon, Connect, ConnectFlags, Control, FlowParameters, Incarnation, Name, NodeId};
use am_wire::{EtherType, Flow, Framing, Framings, Header, Kind, Seq, frame};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::checks::{OWN, greeted, judged, judged_after_another};

/// An honest control frame, of which some bits will be changed.
fn honest(random: &mut SmallRng) -> Vec<u8> {
    let name = Name::new("alpha").unwrap();
    let (node, incarnation) = (NodeId::of(&name), Incarnation(1));
    let offer = FlowParameters {
        flow: Flow::new(7).unwrap(),
        nonce: 1,
        first: [Seq(0); 2],
        credits: [1; 2],
        max_frame: 1514,
        max_message: 0,
    };
    let control = if random.random() {
        let (framings, max_frame) = (Framings::ALL, 1514);
        Control::Beacon(Beacon {
            node,
            incarnation,
            name,
            address: OWN,
            framings,
            max_frame,
            purpose: am_wire::control::Purpose::Ask,
        })
    } else {
        Control::Connect(Connect {
            id: 1,
            node,
            incarnation,
            from: name,
            to: name,
            tag: 0,
            flags: ConnectFlags::ORDERED,
            offer,
        })
    };
    let mut body = [0; Control::MAX_BYTES];
    let length = control.emit(&mut body);
    let mut bytes = vec![0; frame::length(Framing::Plain, length)];
    frame::body(&mut bytes, Framing::Plain, length).unwrap().copy_from_slice(&body[..length]);
    let link = frame::LinkAddresses { to: am_wire::Address::BROADCAST, from: OWN, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    frame::emit(&mut bytes, Framing::Plain, &link, &header, length, None).unwrap();
    bytes
}

#[test]
fn nothing_passes_that_a_port_may_not_say() {
    let mut random = SmallRng::seed_from_u64(11);
    for _ in 0..200_000 {
        let mut bytes = honest(&mut random);
        judged(&bytes);
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        judged(&bytes);
        random.fill_bytes(&mut bytes[14..]);
        judged(&bytes);
        let mut packet = vec![0; random.random_range(0..80)];
        random.fill_bytes(&mut packet);
        packet.splice(0..0, *b"amd\x01\x01\x00\x00\x00");
        greeted(&packet);
        let mut change = vec![0; random.random_range(2..6)];
        random.fill_bytes(&mut change);
        judged_after_another(&change);
    }
}
