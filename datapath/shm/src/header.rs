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
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::*};

use am_ring::lane::{LaneLayout, Shared};

use crate::ShmOpenError;
use crate::errors::system;
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

    /// The offsets of the two lanes between two members.
    pub(crate) fn lanes_between(&self, one: usize, other: usize) -> [usize; 2] {
        [self.lane_at(one, other), self.lane_at(other, one)]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.header() + self.members * self.members * self.lane()
    }
}

/// Read a file's header. `None` if there is none yet: the file is empty, or a segment that is not finished.
///
/// # Errors
/// [`ShmOpenError::Foreign`], [`ShmOpenError::Version`], [`ShmOpenError::Broken`], and errors of the system.
pub(crate) fn read(file: &File, path: PathBuf) -> Result<Option<Geometry>, ShmOpenError> {
    let mut bytes = [0; GEOMETRY_OFFSET + 12];
    let failed = || system("cannot read the segment");
    let length = file.metadata().map_err(failed())?.len();
    match file.read_exact_at(&mut bytes, 0) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
            return if length == 0 { Ok(None) } else { Err(ShmOpenError::Foreign { path }) };
        }
        read => read.map_err(failed())?,
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (magic, version, number) = ([word(0), word(4)], word(8), |nth: usize| word(GEOMETRY_OFFSET + 4 * nth) as usize);
    if magic == [0; 2] {
        return Ok(None);
    }
    if magic != MAGIC {
        return Err(ShmOpenError::Foreign { path });
    }
    if version != VERSION {
        return Err(ShmOpenError::Version { path, found: version, own: VERSION });
    }
    match Geometry::new(number(0), number(1), number(2)) {
        None => Err(ShmOpenError::Broken { path, why: "its header is invalid".into() }),
        Some(geometry) if length < geometry.bytes() as u64 => {
            Err(ShmOpenError::Broken { path, why: "it was cut short".into() })
        }
        whole => Ok(whole),
    }
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
