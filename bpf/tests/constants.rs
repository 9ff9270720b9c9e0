//! The numbers in `wire.h` are those of the Rust code: each of them, and where
//! that keeps a number to itself, by what it writes.

use std::collections::BTreeMap;

use wire::frame::{self, Link};
use wire::steer::Pass;
use wire::{Address, Class, EtherType, Flow, Framing, Header, Kind, Reason};

/// `#define NAME number`, all of the header's.
fn defines() -> BTreeMap<&'static str, u64> {
    let lines = include_str!("../wire.h").lines().filter_map(|line| line.strip_prefix("#define "));
    let define = |line: &'static str| {
        let (name, number) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name, number.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(define).collect()
}

/// The frame of a header whose other fields are zero.
fn emit(framing: Framing, kind: Kind, flow: u16, handler: u8) -> [u8; frame::SMALLEST] {
    let mut bytes = [0; frame::SMALLEST];
    let link = Link { to: Address::default(), from: Address::default(), ethertype: EtherType::DEFAULT };
    let header = Header { kind, flow: Flow::new(flow).unwrap(), nonce: 0, handler, words: 0, seq: 0 };
    frame::emit(&mut bytes, framing, &link, &header, 0, None).unwrap();
    bytes
}

/// The 46 bits of a frame's source address: all but the two lowest of its first byte.
fn bits(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[2..].copy_from_slice(&bytes[6..12]);
    let number = u64::from_be_bytes(number);
    number >> 42 << 40 | number & ((1 << 40) - 1)
}

/// The lowest bit in which two frames' source addresses differ.
fn first_difference(one: &[u8], other: &[u8]) -> u64 {
    (bits(one) ^ bits(other)).trailing_zeros().into()
}

/// The byte of the payload in which two frames differ.
fn byte_of_difference(one: &[u8], other: &[u8]) -> u64 {
    let pairs = one[frame::ETHERNET..].iter().zip(&other[frame::ETHERNET..]);
    pairs.enumerate().find(|(_, (a, b))| a != b).unwrap().0 as u64
}

/// The first byte of a frame that depends on its number.
fn number_at(framing: Framing) -> u64 {
    let link = Link { to: Address::default(), from: Address::default(), ethertype: EtherType::DEFAULT };
    let [none, all] = [0, u32::MAX].map(|seq| {
        let mut bytes = [0; frame::SMALLEST];
        let header = Header { kind: Kind::Reject, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq };
        frame::emit(&mut bytes, framing, &link, &header, 0, None).unwrap();
        bytes
    });
    none.iter().zip(&all).position(|(a, b)| a != b).unwrap() as u64
}

fn layout() -> Vec<(&'static str, u64)> {
    use Framing::{Bare, Plain, Split};
    let request = |framing| emit(framing, Kind::Request, 0, 0);
    let extended = |framing| emit(framing, Kind::Ack, 0, 0);
    let control = |framing| emit(framing, Kind::Control, 0, 0);
    let flow = |framing| emit(framing, Kind::Request, 1, 0);
    let bit = |has: fn(&Address) -> bool| (0..48).find(|&n| has(&Address::from_u64(1 << n))).unwrap();
    vec![
        ("ETHERNET_BYTES", frame::ETHERNET as u64),
        ("SMALLEST_BYTES", frame::SMALLEST as u64),
        ("GROUP_BIT", bit(Address::is_group)),
        ("LOCAL_BIT", bit(Address::is_local)),
        ("VERSION_SHIFT", 44),
        ("VERSION_BARE", bits(&request(Bare)) >> 44),
        ("BARE_KIND_SHIFT", first_difference(&request(Bare), &emit(Bare, Kind::Reply, 0, 0))),
        ("BARE_FLOW_SHIFT", first_difference(&request(Bare), &flow(Bare))),
        ("BARE_CODE_SHIFT", first_difference(&extended(Bare), &control(Bare))),
        ("VERSION_SPLIT", bits(&request(Split)) >> 44),
        ("SPLIT_FLOW_SHIFT", first_difference(&request(Split), &flow(Split))),
        ("SPLIT_FORM_AT", byte_of_difference(&request(Split), &extended(Split))),
        ("SPLIT_CODE_AT", byte_of_difference(&extended(Split), &control(Split))),
        ("VERSION_PLAIN", request(Plain)[frame::ETHERNET].into()),
        ("PLAIN_VERSION_AT", 0),
        ("PLAIN_FORM_AT", byte_of_difference(&request(Plain), &extended(Plain))),
        ("PLAIN_FLOW_AT", byte_of_difference(&request(Plain), &flow(Plain)) - 1),
        ("PLAIN_CODE_AT", byte_of_difference(&extended(Plain), &control(Plain))),
        ("START_BYTES", Plain.body_at() as u64),
        ("BARE_NUMBER_AT", number_at(Bare)),
        ("SPLIT_NUMBER_AT", number_at(Split)),
        ("PLAIN_NUMBER_AT", number_at(Plain)),
    ]
}

fn kinds() -> Vec<(&'static str, u64)> {
    let form = |kind| u64::from(emit(Framing::Split, kind, 0, 0)[frame::ETHERNET]);
    let code = |kind| u64::from(emit(Framing::Split, kind, 0, 0)[frame::ETHERNET + 1]);
    let shift = (form(Kind::Reply) ^ form(Kind::Request)).trailing_zeros();
    vec![
        ("FORM_KIND_SHIFT", shift.into()),
        ("FIELD_REQUEST", form(Kind::Request) >> shift),
        ("FIELD_REPLY", form(Kind::Reply) >> shift),
        ("FIELD_EXTENDED", form(Kind::Control) >> shift),
        ("CODE_ACK", code(Kind::Ack)),
        ("CODE_CONTROL", code(Kind::Control)),
        ("CODE_REJECT", code(Kind::Reject)),
        ("CODE_BUNDLE_REQUESTS", code(Kind::Bundle(Class::Request))),
        ("CODE_BUNDLE_REPLIES", code(Kind::Bundle(Class::Reply))),
        ("CODE_PUT", code(Kind::Put)),
        ("CODE_GET", code(Kind::Get)),
    ]
}

fn enumerations() -> Vec<(&'static str, u64)> {
    vec![
        ("FLOW_COUNT", Flow::COUNT as u64),
        ("FLOW_NODE", Flow::NODE.id().into()),
        ("REASON_SHORT", Reason::Short as u64),
        ("REASON_SOURCE", Reason::Source as u64),
        ("REASON_VERSION", Reason::Version as u64),
        ("REASON_KIND", Reason::Kind as u64),
        ("REASON_NO_FLOW", Reason::NoFlow as u64),
        ("REASON_NODE_FLOW", Reason::NodeFlow as u64),
        ("PASS_FOREIGN", Pass::Foreign as u64),
        ("PASS_OTHER_HOST", Pass::OtherHost as u64),
    ]
}

#[test]
fn the_kernels_numbers_are_ours() {
    let ours: BTreeMap<_, _> = [layout(), kinds(), enumerations()].into_iter().flatten().collect();
    assert_eq!(defines(), ours);
}
