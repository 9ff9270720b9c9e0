//! Any bytes: never a panic, never nonsense taken for sense. What the fuzz
//! targets of `fuzz/` run for hours runs here for a second, on any toolchain.

use am_wire::EtherType;
use proptest::collection::vec;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::any;

#[path = "../checks/mod.rs"]
mod checks;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn parse_takes_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        checks::frame_parse(&bytes);
    }

    #[test]
    fn steer_takes_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        checks::steer(&bytes);
    }

    #[test]
    fn control_takes_any_bytes(bytes in vec(any::<u8>(), 0..140)) {
        checks::control(&bytes);
    }

    #[test]
    fn acks_take_any_bytes(bytes in vec(any::<u8>(), 0..40)) {
        checks::acks(&bytes);
    }

    #[test]
    fn coalesced_bodies_take_any_bytes(bytes in vec(any::<u8>(), 0..80), small in 0u8..12) {
        checks::coalesced(&bytes);
        // Lengths that are small enough to lead to a second message.
        let lengths = [0, small, 7, 0].into_iter().cycle();
        let bytes: Vec<u8> = bytes.iter().zip(lengths).map(|(byte, mask)| byte & mask).collect();
        checks::coalesced(&bytes);
    }

    #[test]
    fn bulk_bodies_take_any_bytes(bytes in vec(any::<u8>(), 0..80), mask in vec(any::<u8>(), 24), code in 0u8..13) {
        checks::bulk(&bytes);
        // Numbers that are small enough for a segment to fit its transfer.
        let mut small = bytes.clone();
        small.iter_mut().skip(8).zip(&mask).enumerate().for_each(|(at, (byte, mask))| {
            *byte &= if at % 8 > 5 { *mask } else { 0 };
        });
        checks::bulk(&small);
        // A notice's length, and a code that may be known.
        let mut notice = [&bytes[..], &[0; 40]].concat();
        notice.truncate(40);
        notice[..4].copy_from_slice(&u32::from(code).to_be_bytes());
        checks::bulk(&notice);
    }

    #[test]
    fn texts_take_any_text(any in ".{0,40}", near in "([0-9a-fA-F+][0-9a-fA-F]:){5}[-+0-9a-f]{1,3}", name in ".{0,33}") {
        [any, near, name].iter().for_each(|text| checks::text(text));
    }

    /// Near misses go deeper than noise does.
    #[test]
    fn a_frame_with_some_bytes_changed(mut message in any::message(), changes in vec((0usize..96, any::<u8>()), 1..6), cut in 0usize..80) {
        (message.link.to, message.link.ethertype) = (checks::OWN, EtherType::DEFAULT);
        let mut bytes = message.emit();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        checks::frame_parse(&bytes);
        checks::steer(&bytes);
        checks::bounce(&bytes);
    }

    #[test]
    fn a_control_body_with_some_bytes_changed(control in any::control(), changes in vec((0usize..128, any::<u8>()), 1..4)) {
        let mut body = [0; am_wire::control::Control::MAX_BYTES];
        let length = control.emit(&mut body);
        for (at, value) in changes {
            body[at] = value;
        }
        checks::control(&body[..length]);
    }
}

/// A million frames of noise, aimed: our EtherTypes, to us, in any source.
#[test]
fn a_million_frames_of_noise() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut bytes = [0; 128];
    for _ in 0..1_000_000 {
        random.fill_bytes(&mut bytes);
        let length = if random.random() { 60 } else { random.random_range(0..bytes.len()) };
        let frame = checks::aimed(&bytes[..length]);
        checks::frame_parse(&frame);
        checks::steer(&frame);
        checks::bounce(&frame);
    }
}
