//! Any bytes: never a panic, never nonsense taken for sense. What the fuzz
//! targets of `fuzz/` run for hours runs here for a second, on any toolchain.

use proptest::collection::vec;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use wire::EtherType;

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
    fn bundles_take_any_bytes(bytes in vec(any::<u8>(), 0..80), small in 0u8..12) {
        checks::bundle(&bytes);
        // Lengths that are small enough to lead to a second message.
        let lengths = [0, small, 7, 0].into_iter().cycle();
        let bytes: Vec<u8> = bytes.iter().zip(lengths).map(|(byte, mask)| byte & mask).collect();
        checks::bundle(&bytes);
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
    }

    #[test]
    fn a_control_body_with_some_bytes_changed(control in any::control(), changes in vec((0usize..128, any::<u8>()), 1..4)) {
        let mut body = [0; wire::control::Control::LONGEST];
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
    }
}
