//! Control frames pass the gate if they could make sense, and if they are not too many.

use am_wire::control::Control;
use am_wire::frame::{self, LinkAddresses};
use am_wire::gate::{Gate, GateError, KNOWN_BURST, SOURCE_BURST, SOURCE_INTERVAL_NS, TOTAL_BURST, TOTAL_INTERVAL_NS};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};
use proptest::prelude::*;

use crate::any;

const SECOND: u64 = 1_000_000_000;

fn control_frame(framing: Framing, from: Address, body: &[u8]) -> Vec<u8> {
    let link = LinkAddresses { to: Address::BROADCAST, from, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    any::Message { framing, link, header, body: body.to_vec(), piggyback: None }.emit()
}

fn pass(gate: &mut Gate, frame: &[u8], now: u64) -> Result<(), GateError> {
    gate.pass(frame, EtherType::DEFAULT, now)
}

/// A Keepalive, which makes sense as far as the gate looks.
fn still(from: u64) -> Vec<u8> {
    control_frame(Framing::Plain, Address::from_u64(2 << 40 | from), &[8, 0, 1, 0, 7, 0, 2, 0, 9])
}

/// How many of `frames`, one every `interval`, pass.
fn passed(gate: &mut Gate, frames: u64, interval: u64, from: impl Fn(u64) -> u64) -> u64 {
    (0..frames).filter(|n| pass(gate, &still(from(*n)), n * interval).is_ok()).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_a_node_says_passes(control in any::control(), framing in any::framing(), more in 0usize..1400) {
        let mut body = [0; Control::MAX_BYTES];
        let length = control.emit(&mut body);
        let mut body = body[..length].to_vec();
        if control.is_padded() {
            body.resize(length + more, 0);
        }
        let frame = control_frame(framing, Address([2, 0, 0, 0, 0, 1]), &body);
        prop_assert_eq!(pass(&mut Gate::default(), &frame, 0), Ok(()));
    }

    /// What is dropped as senseless the node would refuse too.
    #[test]
    fn what_could_make_sense_is_never_senseless(code in 0u8..12, rest in prop::collection::vec(any::<u8>(), 0..150), framing in any::framing()) {
        let body = [&[code][..], &rest].concat();
        let frame = control_frame(framing, Address([2, 0, 0, 0, 0, 1]), &body);
        if pass(&mut Gate::default(), &frame, 0) == Err(GateError::Malformed) {
            prop_assert!(Control::parse(frame::parse(&frame, EtherType::DEFAULT).unwrap().payload).is_err());
        }
    }
}

#[test]
fn other_kinds_and_other_sizes_are_senseless() {
    let mut gate = Gate::default();
    for framing in Framing::ALL {
        let mut of = |code: u8, size: usize| {
            let frame =
                control_frame(framing, Address([2, 0, 0, 0, 0, 1]), &[&[code][..], &vec![0; size - 1]].concat());
            pass(&mut gate, &frame, 0).is_ok()
        };
        let mut sizes = |code| (1..200).filter(|size| of(code, *size)).collect::<Vec<_>>();
        let range = |least, most| (least..=most).collect::<Vec<_>>();
        for code in (0..=255).filter(|code| !(1..=10).contains(code)) {
            assert_eq!(sizes(code), [], "{framing} code {code}");
        }
        assert_eq!((sizes(1), sizes(2), sizes(6)), (range(31, 77), range(58, 134), range(14, 199)), "{framing}");
        assert_eq!(
            [3, 4, 5, 7, 8, 10].map(&mut sizes),
            [29, 6, 34, 6, 9, 17].map(|size| [size, size + 16]),
            "{framing}"
        );
        assert_eq!(sizes(9), [10, 26, 35, 51], "{framing}");
    }
}

#[test]
fn senseless_frames_take_no_true_ones_place() {
    let mut gate = Gate::default();
    let senseless = control_frame(Framing::Plain, Address([2, 0, 0, 0, 0, 1]), &[77; 20]);
    assert!((0..10 * TOTAL_BURST).all(|_| pass(&mut gate, &senseless, 0) == Err(GateError::Malformed)));
    assert_eq!(passed(&mut gate, SOURCE_BURST, 0, |_| 1), SOURCE_BURST);
}

/// For a second.
#[test]
fn one_source_has_its_rate_and_hinders_no_other() {
    let mut gate = Gate::default();
    let most = SOURCE_BURST + SECOND / SOURCE_INTERVAL_NS;
    let got = passed(&mut gate, 200_000, 5000, |_| 7);
    assert!((most - 1..=most + 1).contains(&got), "{got}, not {most}");
    assert_eq!(pass(&mut gate, &still(7), SECOND), Err(GateError::OverLimit));
    assert_eq!(pass(&mut gate, &still(8), SECOND), Ok(()));
    assert_eq!(pass(&mut gate, &still(7), SECOND + SOURCE_INTERVAL_NS), Ok(()), "and it is not locked out");
}

#[test]
fn with_another_source_each_they_share_one_rate() {
    let mut gate = Gate::default();
    let most = TOTAL_BURST + SECOND / TOTAL_INTERVAL_NS;
    let got = passed(&mut gate, 200_000, 5000, |n| n);
    assert!((most - 1..=most + 1).contains(&got), "{got}, not {most}");
    // What repeats itself gets through: one of 25, at this rate.
    let tries = (0..100).filter(|n| {
        let now = SECOND + n * 1_001_000;
        let _ = (0..1000).filter(|k| pass(&mut gate, &still(n * 1000 + k + (1 << 30)), now + k * 1000).is_ok()).count();
        pass(&mut gate, &still(7), now + 1_000_500).is_ok()
    });
    assert!(tries.count() > 0);
}

/// A known one passes beside strangers that use up all that they may.
#[test]
fn of_the_rate_of_all_a_part_is_kept_for_known_sources() {
    let mut gate = Gate::default();
    let known = 5 << 32;
    gate.add_known(Address::from_u64(2 << 40 | known));
    assert_eq!(passed(&mut gate, 2 * TOTAL_BURST, 0, |n| n), TOTAL_BURST);
    assert_eq!(passed(&mut gate, KNOWN_BURST, 0, |_| known), KNOWN_BURST - TOTAL_BURST);
    let from = |n: u64| if n.is_multiple_of(10) { known } else { n };
    let refused = |gate: &mut Gate, n: u64| pass(gate, &still(from(n)), 1_000_000 + n * 5000).is_err();
    let refused: Vec<u64> = (0..50_000).filter(|&n| refused(&mut gate, n)).collect();
    assert!(refused.len() > 20_000 && refused.iter().all(|n| !n.is_multiple_of(10)), "{}", refused.len());
}

#[test]
fn neighbouring_addresses_have_buckets_of_their_own() {
    let mut gate = Gate::default();
    assert_eq!(passed(&mut gate, SOURCE_BURST, 0, |_| 0x1234), SOURCE_BURST);
    let hindered = (0..256).filter(|n| pass(&mut gate, &still(0x1200 + n), 0).is_err()).count();
    assert!(hindered <= 4, "{hindered} of 256, one of which is the source itself");
}
