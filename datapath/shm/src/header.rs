//! The first pages of a segment: version, layout, members.
//!
//! ```text
//!      0  magic, version          written last
//!     16  members, frame, granule
//!    512  changes                 grows when a member joins or leaves
//!   1024  member 0: generation    0 while there is none
//!   1088            asleep        1: write to its FIFO after sending
//!   1152  member 1 …
//! ```
//!
//! Behind the header, at multiples of the granule, is a lane from each member to each other. A lane has memory only
//! once its two members have met.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::*};

use am_ring::lane::{LaneLayout, Shared};

use crate::ShmOpenError;
use crate::options::{self, MAX_MEMBERS};

const MAGIC: [u32; 2] = [u32::from_le_bytes(*b"am-s"), u32::from_le_bytes(*b"hm\x0d\x0a")];
/// The version of the whole segment, lanes and locks included.
pub(crate) const VERSION: u32 = 2;

const GEOMETRY_OFFSET: usize = 16;
const CHANGES_OFFSET: usize = 512;
const MEMBERS_OFFSET: usize = 1024;
const MEMBER_BYTES: usize = 128;
const ASLEEP_OFFSET: usize = 64;

/// The layout of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) members: usize,
    pub(crate) frame: usize,
    pub(crate) granule: usize,
    pub(crate) shape: LaneLayout,
}

impl Geometry {
    /// `None` for an invalid layout.
    pub(crate) fn new(members: usize, frame: usize, granule: usize) -> Option<Geometry> {
        let sane = (2..=MAX_MEMBERS).contains(&members) && granule.is_power_of_two();
        let fine = sane && (4096..=1 << 30).contains(&granule);
        fine.then(|| options::shape(frame)).flatten().map(|shape| Geometry { members, frame, granule, shape })
    }

    pub(crate) fn header(&self) -> usize {
        (MEMBERS_OFFSET + MAX_MEMBERS * MEMBER_BYTES).next_multiple_of(self.granule)
    }

    /// Bytes from one lane to the next.
    pub(crate) fn lane(&self) -> usize {
        self.shape.bytes().next_multiple_of(self.granule)
    }

    /// The offset of the lane from one member to another.
    pub(crate) fn lane_at(&self, from: usize, to: usize) -> usize {
        self.header() + (from * self.members + to) * self.lane()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.header() + self.members * self.members * self.lane()
    }
}

/// What a file contains, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Nothing, or an unfinished segment.
    Nothing,
    /// A segment of this version.
    Segment(Geometry),
    /// A segment of another version.
    Version(u32),
    /// Something else.
    Foreign,
    /// A segment with an invalid header.
    Broken(&'static str),
}

/// Read a file's header.
pub(crate) fn read_state(file: &File) -> io::Result<SegmentState> {
    let mut bytes = [0; GEOMETRY_OFFSET + 12];
    let length = file.metadata()?.len();
    match file.read_exact_at(&mut bytes, 0) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(if length == 0 { SegmentState::Nothing } else { SegmentState::Foreign });
        }
        read => read?,
    }
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let [m0, m1, version, _, members, frame, granule] = words[..] else { return Ok(SegmentState::Foreign) };
    if [m0, m1] == [0; 2] {
        return Ok(SegmentState::Nothing);
    }
    if [m0, m1] != MAGIC {
        return Ok(SegmentState::Foreign);
    }
    if version != VERSION {
        return Ok(SegmentState::Version(version));
    }
    let Some(geometry) = Geometry::new(members as usize, frame as usize, granule as usize) else {
        return Ok(SegmentState::Broken("its header is invalid"));
    };
    let whole = length >= geometry.bytes() as u64;
    Ok(if whole { SegmentState::Segment(geometry) } else { SegmentState::Broken("it was cut short") })
}

/// The header of a mapped segment. Other processes write it as well.
#[derive(Clone, Debug)]
pub(crate) struct Header(Shared);

impl Header {
    pub(crate) fn new(segment: &Shared, geometry: &Geometry) -> Header {
        Header(segment.part(0, geometry.header()))
    }

    /// Write the header. The magic number comes last: without it there is no segment.
    pub(crate) fn write(&self, geometry: &Geometry) {
        let Geometry { members, frame, granule, .. } = *geometry;
        for (nth, number) in [members, frame, granule].into_iter().enumerate() {
            self.0.word(GEOMETRY_OFFSET + nth * 4).store(number as u32, Relaxed);
        }
        self.0.word(8).store(VERSION, Relaxed);
        self.0.word(4).store(MAGIC[1], Relaxed);
        self.0.word(0).store(MAGIC[0], Release);
    }

    #[inline]
    pub(crate) fn changes(&self) -> &AtomicU32 {
        self.0.word(CHANGES_OFFSET)
    }

    #[inline]
    pub(crate) fn generation(&self, member: usize) -> &AtomicU32 {
        self.0.word(MEMBERS_OFFSET + member * MEMBER_BYTES)
    }

    #[inline]
    pub(crate) fn asleep(&self, member: usize) -> &AtomicU32 {
        self.0.word(MEMBERS_OFFSET + member * MEMBER_BYTES + ASLEEP_OFFSET)
    }

    /// A member joined or left: have all members read the list.
    pub(crate) fn notify_members(&self) {
        self.changes().fetch_add(1, Release);
    }

    /// Remove a member, unless another one has its number already.
    pub(crate) fn remove_member(&self, member: usize, birth: u32) {
        if self.generation(member).compare_exchange(birth, 0, Release, Relaxed).is_ok() {
            self.notify_members();
        }
    }
}

/// Check a setting that was asked for against the segment's.
pub(crate) fn check_setting(setting: &'static str, asked: Option<usize>, has: usize) -> Result<(), ShmOpenError> {
    match asked {
        Some(asked) if asked != has => Err(ShmOpenError::Conflict { setting, has, asked }),
        _ => Ok(()),
    }
}

/// The error for a file that cannot be joined.
pub(crate) fn not_joinable(found: SegmentState, path: &Path) -> ShmOpenError {
    let path = path.to_owned();
    match found {
        SegmentState::Version(found) => ShmOpenError::Version { path, found, own: VERSION },
        SegmentState::Foreign => ShmOpenError::Foreign { path },
        SegmentState::Broken(why) => ShmOpenError::Broken { path, why: why.into() },
        SegmentState::Nothing | SegmentState::Segment(_) => {
            ShmOpenError::Broken { path, why: "its header is gone".into() }
        }
    }
}
