//! Group frames: written, read, steered, stamped in place.

use am_wire::frame::{self, LinkAddresses};
use am_wire::group::{self, GROUP_HEADER_AT, GROUP_PAYLOAD_AT, GroupFrame, GroupHeader, JoinedGroups};
use am_wire::steer::{Decision, PassReason, SteeringTable, steer};
use am_wire::{Address, EtherType, Flow, Kind, Reason};
use proptest::prelude::*;

const OWN: Address = Address([2, 0, 0, 0, 0, 1]);
const FROM: Address = Address([2, 0, 0, 0, 0, 7]);
const GROUP: u64 = 0x0123_4567_89ab_cdef;

fn header() -> impl Strategy<Value = GroupHeader> {
    let numbers = any::<(u64, u32, u8, u16, u32, u32, u64, u64, u64)>();
    (numbers, proptest::sample::select(&GroupFrame::ALL[..])).prop_map(|(numbers, what)| {
        let (group, epoch, flags, sender, seq, limit, number, content, tag) = numbers;
        GroupHeader { group, epoch, what, flags, sender, seq, limit, number, content, tag }
    })
}

fn emit(to: Address, header: &GroupHeader, payload: &[u8]) -> Vec<u8> {
    let mut space = vec![0xa5; 2000];
    group::payload(&mut space, payload.len()).unwrap().copy_from_slice(payload);
    let link = LinkAddresses { to, from: FROM, ethertype: EtherType::DEFAULT };
    let length = group::emit(&mut space, &link, header, payload.len()).unwrap();
    assert_eq!(length, group::length(payload.len()));
    space.truncate(length);
    space
}

fn table() -> SteeringTable {
    let mut table = SteeringTable::new(EtherType::DEFAULT, OWN);
    table.groups.join(99, 1);
    assert_eq!(table.groups.join(GROUP, 4), Some(1));
    table
}

proptest! {
    #[test]
    fn what_is_written_is_read(header in header(), payload in proptest::collection::vec(any::<u8>(), 0..1400)) {
        let bytes = emit(OWN, &header, &payload);
        prop_assert_eq!(GroupHeader::parse(&bytes), Ok((header, &payload[..])));
        let parsed = frame::parse(&bytes, EtherType::DEFAULT).unwrap();
        prop_assert_eq!((parsed.header.kind, parsed.header.flow, parsed.source), (Kind::Group, Flow::NODE, FROM));
    }

    #[test]
    fn a_tag_covers_every_field(header in header(), key in any::<[u64; 2]>(), at in 0..GroupHeader::BYTES * 8) {
        let header = GroupHeader { tag: header.tag_under(key), ..header };
        prop_assert!(header.is_authentic(key));
        let mut bytes = emit(OWN, &header, b"");
        bytes[GROUP_HEADER_AT + at / 8] ^= 1 << (at % 8);
        if let Ok((changed, _)) = GroupHeader::parse(&bytes) {
            prop_assert!(!changed.is_authentic(key));
        }
    }
}

#[test]
fn without_a_key_there_is_no_tag() {
    let header = GroupHeader::to_stamp(GROUP, 1, 2, 3);
    assert_eq!((header.tag_under([0; 2]), group::content([0; 2], b"x")), (0, 0));
    assert!(GroupHeader { tag: 5, ..header }.is_authentic([0; 2]));
    assert_ne!(group::content([0, 1], b"x"), 0);
}

#[test]
fn group_frames_go_where_their_group_is() {
    let (table, header) = (table(), GroupHeader::to_stamp(GROUP, 1, 2, 3));
    for to in [OWN, group::address(GROUP), Address::BROADCAST] {
        for (what, expected) in [
            (GroupFrame::ToStamp, Decision::Sequence(1)),
            (GroupFrame::Stamped, Decision::Socket(4)),
            (GroupFrame::Datagram, Decision::Socket(4)),
        ] {
            assert_eq!(steer(&emit(to, &GroupHeader { what, ..header }, b"x"), &table), expected);
        }
        for group in [GROUP ^ 1, 0] {
            let bytes = emit(to, &GroupHeader { group, ..header }, b"x");
            assert_eq!(steer(&bytes, &table), Decision::Drop(Reason::NoGroup));
        }
    }
    let probe = frame::split_source(Flow::NODE, FROM);
    for to in [FROM, probe] {
        assert_eq!(steer(&emit(to, &header, b"x"), &table), Decision::Pass(PassReason::OtherHost));
    }
    let mut behind = table.clone();
    behind.added.insert(FROM);
    assert_eq!(steer(&emit(FROM, &header, b"x"), &behind), Decision::Drop(Reason::NodeFlow));
}

/// Steering and parsing name the same reason.
#[test]
fn malformed_group_frames_are_dropped() {
    let good = emit(OWN, &GroupHeader::to_stamp(GROUP, 1, 2, 3), b"some payload");
    type Change = fn(&mut Vec<u8>);
    let cases: [(Reason, Change); 6] = [
        (Reason::NodeFlow, |bytes| bytes[17] = 9),
        (Reason::Length, |bytes| bytes.truncate(80)),
        (Reason::Words, |bytes| bytes[15] |= 1 << 3),
        (Reason::Body, |bytes| bytes[GROUP_HEADER_AT + 12] = 3),
        (Reason::Kind, |bytes| bytes[18] = 8),
        (Reason::Body, |bytes| {
            // The code of 73 bytes: 1 + 1023 + 73.
            bytes.truncate(GROUP_PAYLOAD_AT - 1);
            bytes[15] = bytes[15] & !7 | 4;
            bytes[19] = 73;
        }),
    ];
    for (reason, change) in cases {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(steer(&bytes, &table()), Decision::Drop(reason));
        assert_eq!(frame::parse(&bytes, EtherType::DEFAULT).err(), Some(reason));
    }
}

#[test]
fn only_plain_frames_are_group_frames() {
    let header = am_wire::Header { kind: Kind::Group, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    for framing in [am_wire::Framing::Bare, am_wire::Framing::Split] {
        let mut bytes = vec![0; 200];
        let link = LinkAddresses { to: OWN, from: FROM, ethertype: EtherType::DEFAULT };
        frame::emit(&mut bytes, framing, &link, &header, 200 - framing.body_at(), None).unwrap();
        assert_eq!(steer(&bytes, &table()), Decision::Drop(Reason::Kind));
        assert_eq!(frame::parse(&bytes, EtherType::DEFAULT).err(), Some(Reason::Kind));
    }
}

#[test]
fn groups_are_joined_and_left() {
    let mut groups = JoinedGroups::new();
    assert_eq!(groups.find(0), None);
    for id in 1..=8 {
        assert_eq!(groups.join(id, id as u8), Some(id as usize - 1));
    }
    assert_eq!((groups.join(9, 0), groups.join(3, 7)), (None, Some(2)));
    assert_eq!((groups.find(3), groups.socket(2)), (Some((2, 7)), Some(7)));
    assert_eq!((groups.leave(3), groups.leave(3), groups.socket(2)), (Some(2), None, None));
    assert_eq!(groups.join(9, 1), Some(2));
}

#[test]
fn addresses_of_groups_are_locally_administered_group_addresses() {
    for group in [1, GROUP, u64::MAX] {
        let address = group::address(group);
        assert!(address.is_group() && address.is_local() && address != Address::BROADCAST);
    }
}
