//! The bodies of bulk transfers: there and back, and any bytes.

use am_wire::bulk::{Notice, NoticeKind, Segment};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_segment_comes_back(region: u32, transfer: u32, start in 0..=Segment::MAX_OFFSET, at in 0..1u64 << 32, more in 0..1u64 << 32, data: Vec<u8>) {
        let total = at + more;
        let segment = Segment { region, transfer, start, total, at };
        let body = [&segment.to_bytes()[..], &data].concat();
        let expected = (data.len() as u64 <= more).then_some((segment, &data[..]));
        prop_assert_eq!(Segment::parse(&body), expected);
    }

    #[test]
    fn a_notice_comes_back(what in prop::sample::select(&NoticeKind::ALL[..]), numbers: [u32; 3], longs: [u64; 3]) {
        let ([transfer, region, into], [offset, into_offset, length]) = (numbers, longs);
        let notice = Notice { what, transfer, region, into, offset, into_offset, length };
        prop_assert_eq!(Notice::parse(&notice.to_bytes()), Some(notice));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some((segment, data)) = Segment::parse(&bytes) {
            prop_assert!(segment.total - segment.at >= data.len() as u64);
        }
        if let Some(notice) = Notice::parse(&bytes) {
            prop_assert_eq!(&notice.to_bytes()[..], &bytes);
        }
    }
}

#[test]
fn what_would_go_beyond_its_transfer_is_refused() {
    let segment = Segment { region: 1, transfer: 2, start: 3, total: 10, at: 9 };
    let body = |data: &[u8]| [&segment.to_bytes()[..], data].concat();
    assert!(Segment::parse(&body(b"x")).is_some());
    assert!(Segment::parse(&body(b"xy")).is_none());
    let far = Segment { at: u32::MAX.into(), total: u32::MAX.into(), ..segment };
    assert!(Segment::parse(&[&far.to_bytes()[..], b"x"].concat()).is_none());
}

/// Cut off, it would lead somewhere else.
#[test]
fn a_number_that_is_too_large_is_the_largest() {
    for start in [Segment::MAX_OFFSET, Segment::MAX_OFFSET + 1, u64::MAX] {
        let segment = Segment { region: 1, transfer: 2, start, total: 10, at: 0 };
        let body = segment.to_bytes();
        assert_eq!(Segment::parse(&body), Some((Segment { start: Segment::MAX_OFFSET, ..segment }, &[][..])));
    }
}
