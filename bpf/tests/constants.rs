//! The numbers in `wire.h` are those of the Rust code: each of them, and where
//! that keeps a number to itself, by what it writes.

use std::collections::{BTreeMap, HashSet};

use am_wire::frame::{self, LinkAddresses};
use am_wire::gate;
use am_wire::group::{self, GroupFrame, GroupHeader, JoinedGroups};
use am_wire::stamp::{self, Destination, Refusal};
use am_wire::steer::PassReason;
use am_wire::{Address, AddressSet, Class, EtherType, Flow, Framing, HEAD_WORDS, Header, Kind, Reason};

/// `#define NAME number`, all of the header's.
fn defines() -> BTreeMap<&'static str, u64> {
    let lines = include_str!("../wire.h").lines().filter_map(|line| line.strip_prefix("#define "));
    let define = |line: &'static str| {
        let (name, number) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name, number.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(define).collect()
}

const LINK: LinkAddresses = LinkAddresses { to: Address([0; 6]), from: Address([0; 6]), ethertype: EtherType::DEFAULT };

/// The frame of a header whose other fields are zero.
fn emit(framing: Framing, kind: Kind, flow: u16, handler: u8) -> [u8; frame::MIN_FRAME] {
    let mut bytes = [0; frame::MIN_FRAME];
    let header = Header { kind, flow: Flow::new(flow).unwrap(), nonce: 0, handler, words: 0, seq: 0 };
    frame::emit(&mut bytes, framing, &LINK, &header, 0, None).unwrap();
    bytes
}

/// A frame of this length.
fn long(framing: Framing, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let header = Header { kind: Kind::Request, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    frame::emit(&mut bytes, framing, &LINK, &header, length - framing.body_at(), None).unwrap();
    bytes
}

/// A frame whose length has the code 1, the lowest.
fn lowest(framing: Framing) -> Vec<u8> {
    long(framing, 95 * 1023 * 16)
}

/// How many codes the lengths have that are multiples of 16, or those that are not.
fn length_codes(framing: Framing, multiples: bool) -> u64 {
    let lengths = (frame::MIN_FRAME..18_000).filter(|length| length.is_multiple_of(16) == multiples);
    let codes: HashSet<Vec<u8>> =
        lengths.map(|length| long(framing, length)[6..frame::ETHERNET_HEADER + 12].to_vec()).collect();
    codes.len() as u64
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
    let pairs = one[frame::ETHERNET_HEADER..].iter().zip(&other[frame::ETHERNET_HEADER..]);
    pairs.enumerate().find(|(_, (a, b))| a != b).unwrap().0 as u64
}

/// The first byte of a frame that depends on its number.
fn number_at(framing: Framing) -> u64 {
    let [none, all] = [0, u32::MAX].map(|seq| {
        let mut bytes = [0; frame::MIN_FRAME];
        let header = Header { kind: Kind::Reject, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq };
        frame::emit(&mut bytes, framing, &LINK, &header, 0, None).unwrap();
        bytes
    });
    none.iter().zip(&all).position(|(a, b)| a != b).unwrap() as u64
}

fn request(framing: Framing) -> [u8; frame::MIN_FRAME] {
    emit(framing, Kind::Request, 0, 0)
}

fn extended(framing: Framing) -> [u8; frame::MIN_FRAME] {
    emit(framing, Kind::Ack, 0, 0)
}

fn control(framing: Framing) -> [u8; frame::MIN_FRAME] {
    emit(framing, Kind::Control, 0, 0)
}

fn flow(framing: Framing) -> [u8; frame::MIN_FRAME] {
    emit(framing, Kind::Request, 1, 0)
}

fn layout_of_bare() -> Vec<(&'static str, u64)> {
    use Framing::Bare;
    let words = |words| {
        let mut bytes = [0; frame::MIN_FRAME];
        let header = Header { kind: Kind::Request, flow: Flow::NODE, nonce: 0, handler: 0, words, seq: 0 };
        frame::emit(&mut bytes, Bare, &LINK, &header, 32, None).unwrap();
        bytes
    };
    let form = |kind| bits(&emit(Bare, kind, 0, 0)) >> 41;
    vec![
        ("BARE_VERSION_SHIFT", 45),
        ("BARE_FORM_SHIFT", first_difference(&words(0), &words(1))),
        ("BARE_FORM_REPLY", form(Kind::Reply)),
        ("BARE_FORM_EXTENDED", form(Kind::Ack)),
        ("HEAD_WORDS", HEAD_WORDS as u64),
        ("BARE_FLOW_SHIFT", first_difference(&request(Bare), &flow(Bare))),
        ("BARE_CODE_SHIFT", first_difference(&extended(Bare), &control(Bare))),
        ("BARE_LENGTH_SHIFT", first_difference(&request(Bare), &lowest(Bare))),
        ("BARE_NUMBER_AT", number_at(Bare)),
    ]
}

fn layout() -> Vec<(&'static str, u64)> {
    use Framing::{Plain, Split};
    let bit = |has: fn(&Address) -> bool| (0..48).find(|&n| has(&Address::from_u64(1 << n))).unwrap();
    vec![
        ("ETHERNET_BYTES", frame::ETHERNET_HEADER as u64),
        ("SMALLEST_BYTES", frame::MIN_FRAME as u64),
        ("GROUP_BIT", bit(Address::is_group)),
        ("LOCAL_BIT", bit(Address::is_local)),
        ("VERSION_SHIFT", 44),
        ("VERSION_SPLIT", bits(&request(Split)) >> 44),
        ("SPLIT_FLOW_SHIFT", first_difference(&request(Split), &flow(Split))),
        ("SPLIT_FORM_AT", byte_of_difference(&request(Split), &extended(Split))),
        ("SPLIT_CODE_AT", byte_of_difference(&extended(Split), &control(Split))),
        ("SPLIT_LENGTH_AT", byte_of_difference(&request(Split)[1..], &lowest(Split)[1..]) + 1),
        ("VERSION_PLAIN", request(Plain)[frame::ETHERNET_HEADER].into()),
        ("PLAIN_VERSION_AT", 0),
        ("PLAIN_FORM_AT", byte_of_difference(&request(Plain), &extended(Plain))),
        ("PLAIN_FLOW_AT", byte_of_difference(&request(Plain), &flow(Plain)) - 1),
        ("PLAIN_CODE_AT", byte_of_difference(&extended(Plain), &control(Plain))),
        ("PLAIN_LENGTH_AT", byte_of_difference(&request(Plain)[2..], &lowest(Plain)[2..]) + 2),
        ("BARE_COST", Framing::Bare.cost() as u64),
        ("SPLIT_COST", Split.cost() as u64),
        ("PLAIN_COST", Plain.cost() as u64),
        ("START_BYTES", Plain.body_at() as u64),
        ("SPLIT_NUMBER_AT", number_at(Split)),
        ("PLAIN_NUMBER_AT", number_at(Plain)),
    ]
}

fn kinds() -> Vec<(&'static str, u64)> {
    let form = |kind| u64::from(emit(Framing::Split, kind, 0, 0)[frame::ETHERNET_HEADER]);
    let code = |kind| u64::from(emit(Framing::Split, kind, 0, 0)[frame::ETHERNET_HEADER + 1]);
    let shift = (form(Kind::Reply) ^ form(Kind::Request)).trailing_zeros();
    vec![
        ("FORM_KIND_SHIFT", shift.into()),
        ("FORM_WORDS_SHIFT", u64::from(shift) - 3),
        ("FIELD_REQUEST", form(Kind::Request) >> shift),
        ("FIELD_REPLY", form(Kind::Reply) >> shift),
        ("FIELD_EXTENDED", form(Kind::Control) >> shift),
        ("CODE_ACK", code(Kind::Ack)),
        ("CODE_CONTROL", code(Kind::Control)),
        ("CODE_REJECT", code(Kind::Reject)),
        ("CODE_BUNDLE_REQUESTS", code(Kind::Coalesced(Class::Request))),
        ("CODE_BUNDLE_REPLIES", code(Kind::Coalesced(Class::Reply))),
        ("CODE_PUT", code(Kind::Put)),
        ("CODE_GET", code(Kind::Get)),
        ("CODE_GROUP", code(Kind::Group)),
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
        ("REASON_LENGTH", Reason::Length as u64),
        ("REASON_WORDS", Reason::Words as u64),
        ("REASON_BODY", Reason::Body as u64),
        ("REASON_NO_GROUP", Reason::NoGroup as u64),
        ("LENGTH_SHORT", 0),
        ("LENGTH_UNIT", 16),
        ("NARROW_UNITS", length_codes(Framing::Bare, true)),
        ("NARROW_OTHERS", length_codes(Framing::Bare, false)),
        ("WIDE_UNITS", length_codes(Framing::Plain, true)),
        ("WIDE_OTHERS", length_codes(Framing::Plain, false)),
        ("ADDED_ADDRESSES", AddressSet::MAX as u64),
        ("GATE_SOURCES", gate::SOURCES as u64),
        ("GATE_EACH_NS", gate::SOURCE_INTERVAL_NS),
        ("GATE_EACH_BURST", gate::SOURCE_BURST),
        ("GATE_ALL_NS", gate::TOTAL_INTERVAL_NS),
        ("GATE_ALL_BURST", gate::TOTAL_BURST),
        ("GATE_KNOWN_BURST", gate::KNOWN_BURST),
        ("PASS_FOREIGN", PassReason::Foreign as u64),
        ("PASS_OTHER_HOST", PassReason::OtherHost as u64),
    ]
}

fn groups() -> Vec<(&'static str, u64)> {
    let bytes = |what| GroupHeader { what, ..GroupHeader::to_stamp(0, 0, 0, 0) }.to_bytes();
    let what_at = bytes(GroupFrame::Datagram).iter().position(|&byte| byte != 0).unwrap();
    vec![
        ("GROUP_HEADER_AT", group::GROUP_HEADER_AT as u64),
        ("GROUP_HEADER_BYTES", GroupHeader::BYTES as u64),
        ("GROUP_TAGGED_BYTES", GroupHeader::BYTES as u64 - 8),
        ("GROUP_WHAT_AT", (group::GROUP_HEADER_AT + what_at) as u64),
        ("GROUP_TO_STAMP", bytes(GroupFrame::ToStamp)[what_at].into()),
        ("GROUP_STAMPED", bytes(GroupFrame::Stamped)[what_at].into()),
        ("GROUP_DATAGRAM", bytes(GroupFrame::Datagram)[what_at].into()),
        ("GROUPS", JoinedGroups::MAX as u64),
        ("SENDERS", stamp::SENDERS as u64),
        ("REMEMBERED", stamp::REMEMBERED as u64),
        ("REMEMBERED_NUMBER_BITS", stamp::NUMBER_BITS.into()),
        ("TO_GROUP", Destination::Group as u64),
        ("TO_COPIES", Destination::Copies as u64),
        ("TO_SENDER", Destination::Sender as u64),
        ("REFUSAL_NO_GROUP", Refusal::NoGroup as u64),
        ("REFUSAL_EPOCH", Refusal::Epoch as u64),
        ("REFUSAL_LEASE", Refusal::Lease as u64),
        ("REFUSAL_SENDER", Refusal::Sender as u64),
        ("REFUSAL_ADDRESS", Refusal::Address as u64),
        ("REFUSAL_TAG", Refusal::Tag as u64),
        ("REFUSAL_GAP", Refusal::Gap as u64),
        ("REFUSAL_FORGOTTEN", Refusal::Forgotten as u64),
        ("REFUSAL_CREDIT", Refusal::Credit as u64),
    ]
}

#[test]
fn the_kernels_numbers_are_ours() {
    let ours: BTreeMap<_, _> =
        [layout(), layout_of_bare(), kinds(), enumerations(), groups()].into_iter().flatten().collect();
    assert_eq!(defines(), ours);
}
