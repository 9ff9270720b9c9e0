//! What a message costs on the wire, as a capture at the far end of the cable
//! sees it. (What an XDP program takes in is in no capture of the same
//! interface, so the cables end in a switch, where the capture is.)

use std::time::{Duration, Instant};

use crate::wires::{Seen, against, connect, node};
use am_api::Framing;
use am_netns::{Bridge, BridgeOptions, Host, Tap};

/// The frame that carries `payload` from alpha to beta, as it leaves alpha's cable.
fn captured(framing: Framing, payload: &[u8]) -> Vec<u8> {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let options = BridgeOptions { learning: false, ..BridgeOptions::default() };
    let switch = Bridge::new(&[&alpha, &beta], "am0", &options).unwrap();
    let tap = Tap::new(&switch.ports()[0]).unwrap();
    let to_beta = switch.ends()[1].address();
    against(&alpha, &beta, Some(framing), || {
        let (_node, mut endpoint) = node("alpha", Some(framing));
        let mut seen = Seen::default();
        let to = connect(&mut endpoint, &mut seen);
        endpoint.try_request(to, crate::wires::ECHO, &[], payload).unwrap();
        assert!(endpoint.wait_until(&mut seen, crate::wires::SECONDS, |seen| seen.replies == 1));
    });
    let mut buffer = [0; 2048];
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let Some(frame) = tap.receive(&mut buffer, Duration::from_millis(100)).unwrap() else { continue };
        if frame[..6] == to_beta && frame.windows(payload.len()).any(|window| window == payload) {
            return frame.to_vec();
        }
    }
    panic!("the message was not captured");
}

fn check(framing: Framing, cost: usize, ethertype: u16) {
    let payload: Vec<u8> = (0..1500 - cost).map(|at| (at * 13 + 5) as u8).collect();
    let frame = captured(framing, &payload);
    assert_eq!(frame.len(), 1514, "one frame, full");
    assert_eq!(frame[14 + cost..], payload, "the user's bytes are all but {cost}");
    assert_eq!(frame[12..14], ethertype.to_be_bytes());
    if framing != Framing::Plain {
        assert_eq!(frame[6] & 0b11, 0b10, "source {:02x?}: group bit 0, local bit 1", &frame[6..12]);
    }
}

#[test]
fn bare_carries_1500_of_1500_bytes() {
    check(Framing::Bare, 0, 0x88b5);
}

#[test]
fn split_costs_8_bytes() {
    check(Framing::Split, 8, 0x88b5);
}

#[test]
fn plain_costs_12_bytes() {
    check(Framing::Plain, 12, 0x88b6);
}
