//! Bulk transfers: the bodies of `Put` and `Get` frames.

use crate::codec::{Field, by_code, carried, fields};

/// The start of a `Put` frame's body; the segment's data follows. It describes the whole transfer, so the receiver can
/// judge each segment alone, in any order. Every frame of a transfer carries it, so its numbers have no more bytes than
/// they need.
///
/// A segment without data, in a transfer that has some, ends the transfer: nothing from `at` on follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The receiver's region.
    pub region: u32,
    /// The transfer to which it belongs.
    pub transfer: u32,
    /// Where in the region the transfer starts: below [`Segment::MAX_OFFSET`].
    pub start: u64,
    /// Bytes of the whole transfer: at most 4 GiB.
    pub total: u64,
    /// Where in the transfer the data of this segment goes: below 4 GiB.
    pub at: u64,
}

impl Segment {
    /// Bytes before the data.
    pub const BYTES: usize = 22;

    /// The end of what a region can have: 1 TiB, less one byte.
    pub const MAX_OFFSET: u64 = (1 << 40) - 1;

    /// The fixed part as it stands in a frame. A number that is too large becomes the largest possible, for which no
    /// receiver has room.
    pub fn to_bytes(self) -> [u8; Segment::BYTES] {
        let mut bytes = [0; Segment::BYTES];
        bytes[..4].copy_from_slice(&self.region.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.transfer.to_be_bytes());
        for (place, number) in bytes[8..18].chunks_exact_mut(5).zip([self.start, self.total]) {
            place.copy_from_slice(&number.min(Self::MAX_OFFSET).to_be_bytes()[3..]);
        }
        bytes[18..].copy_from_slice(&(self.at.min(u32::MAX.into()) as u32).to_be_bytes());
        bytes
    }

    /// The fixed part and the data; `None` where the body is too short, or the
    /// data would go beyond the end of its transfer.
    #[inline]
    pub fn parse(body: &[u8]) -> Option<(Segment, &[u8])> {
        let (fixed, data) = body.split_first_chunk::<{ Segment::BYTES }>()?;
        let long = |at: usize| fixed[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        // Each number is at the end of the eight bytes that are read for it.
        let (region, transfer) = ((long(0) >> 32) as u32, long(0) as u32);
        let (start, total) = (long(5) & Self::MAX_OFFSET, long(10) & Self::MAX_OFFSET);
        let segment = Segment { region, transfer, start, total, at: long(14) & u64::from(u32::MAX) };
        let end = segment.at.checked_add(data.len() as u64)?;
        (end <= segment.total).then_some((segment, data))
    }
}

/// The body of a `Get` frame: a transfer is requested, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it says.
    pub what: NoticeKind,
    /// The transfer.
    pub transfer: u32,
    /// For [`NoticeKind::Get`]: the region to read. For [`NoticeKind::Busy`]: the region in use, or 0.
    pub region: u32,
    /// The asker's region to put it into.
    pub into: u32,
    /// Where in `region` it starts.
    pub offset: u64,
    /// Where in `into` it starts.
    pub into_offset: u64,
    /// Bytes.
    pub length: u64,
}

/// What a [`Notice`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoticeKind {
    /// Put this into my region.
    Get = 1,
    /// All of your transfer is in my memory.
    Done = 2,
    /// There is no such region, or no longer.
    NoRegion = 3,
    /// The region may not be used so.
    Denied = 4,
    /// The region is shorter.
    OutOfBounds = 5,
    /// The region is in use; without a region, there are too many transfers.
    Busy = 6,
    /// I wait for it still: to be acknowledged, no more.
    Waiting = 7,
    /// I no longer want what I requested: end it where you are.
    Cancel = 8,
    /// It ended before its last byte, as you said: the bytes before are in my memory.
    Cancelled = 9,
    /// The next bytes of a transfer, at most [`LENT_BYTES`] and not beyond its end, are in my memory: copy them from there.
    /// `into` is where they go in the transfer, `offset` where it starts in `region`, `length` the bytes of the whole
    /// transfer, `into_offset` the address of the bytes in the memory of my process.
    Lent = 10,
    /// I cannot read your memory: send the bytes from `into` on.
    Unreadable = 11,
}

/// The most bytes of a [`NoticeKind::Lent`].
pub const LENT_BYTES: u64 = 256 << 10;

impl NoticeKind {
    /// All of them, in the order of their codes.
    pub const ALL: [NoticeKind; 11] = [
        NoticeKind::Get,
        NoticeKind::Done,
        NoticeKind::NoRegion,
        NoticeKind::Denied,
        NoticeKind::OutOfBounds,
        NoticeKind::Busy,
        NoticeKind::Waiting,
        NoticeKind::Cancel,
        NoticeKind::Cancelled,
        NoticeKind::Lent,
        NoticeKind::Unreadable,
    ];
}

impl Notice {
    /// Bytes of the body.
    pub const BYTES: usize = 40;

    /// A notice about a transfer.
    pub const fn of(what: NoticeKind, transfer: u32) -> Notice {
        Notice { what, transfer, region: 0, into: 0, offset: 0, into_offset: 0, length: 0 }
    }

    /// The body.
    pub fn to_bytes(self) -> [u8; Notice::BYTES] {
        let mut bytes = [0; Notice::BYTES];
        self.put(&mut &mut bytes[..]);
        bytes
    }

    /// `None` for a body of another length, or with a code that is not known.
    pub fn parse(mut body: &[u8]) -> Option<Notice> {
        Notice::take(&mut body).filter(|_| body.is_empty())
    }
}

fields! { Notice { what transfer region into offset into_offset length } }

carried! { NoticeKind as u32: |what| what as u32, |code| by_code(&NoticeKind::ALL, code); }
