//! The first pages of a segment: version, layout, members.
//!
//! ```text
//!      0  magic, version          written last
//!     16  members, frame, granule
//!    512  changes                 grows when a member joins or leaves
//!   1024  member 0: generation    0 while there is none
//!   1028            left          when its last owner left, in milliseconds of the system's clock
//!   1032            process       its id, 0 if none may read its memory
//!   1040            secret        its address in that process, and its value
//!   1088            asleep        1: write to its FIFO after sending
//!   1152  member 1 …
//!   9216  holds                   for each member, the member numbers whose lanes it still reads
//! ```
//!
//! Behind the header, at multiples of the granule, is a lane from each member to each other. A lane has memory only
//! once its two members have met.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

use am_ring::lane::{Holds, LaneLayout, Shared, SharedWord, SleepWord};
use nix::time::{ClockId, clock_gettime};

use crate::ShmOpenError;
use crate::errors::system;
use crate::options::{self, MAX_MEMBERS};
use crate::process::Process;

const MAGIC: [u32; 2] = [u32::from_le_bytes(*b"am-s"), u32::from_le_bytes(*b"hm\x0d\x0a")];
/// The version of the whole segment, lanes and locks included.
pub(crate) const VERSION: u32 = 5;

const GEOMETRY_OFFSET: usize = 16;
const CHANGES_OFFSET: usize = 512;
const MEMBERS_OFFSET: usize = 1024;
const MEMBER_BYTES: usize = 128;
const LEFT_OFFSET: usize = 4;
const PROCESS_OFFSET: usize = 8;
const SECRET_OFFSET: usize = 16;
const ASLEEP_OFFSET: usize = 64;
const HOLDS_OFFSET: usize = MEMBERS_OFFSET + MAX_MEMBERS * MEMBER_BYTES;

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
        (HOLDS_OFFSET + Holds::bytes(MAX_MEMBERS)).next_multiple_of(self.granule)
    }

    /// How many member numbers there are: twice as many as members. A number that was left is not free until all other members have read
    /// its lanes to the end. So even while one member reads nothing, there are enough numbers.
    pub(crate) fn numbers(&self) -> usize {
        (2 * self.members).min(MAX_MEMBERS)
    }

    /// Bytes from one lane to the next.
    pub(crate) fn lane(&self) -> usize {
        self.shape.bytes().next_multiple_of(self.granule)
    }

    /// The offset of the lane from one member to another.
    pub(crate) fn lane_at(&self, from: usize, to: usize) -> usize {
        self.header() + (from * self.numbers() + to) * self.lane()
    }

    /// The offsets of the two lanes between two members.
    pub(crate) fn lanes_between(&self, one: usize, other: usize) -> [usize; 2] {
        [self.lane_at(one, other), self.lane_at(other, one)]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.header() + self.numbers() * self.numbers() * self.lane()
    }
}

/// Read a file's header. `None` if there is none yet: the file is empty, or its magic number is not written yet.
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
pub(crate) struct Header {
    words: Shared,
    changes: SharedWord,
    /// Which lanes each member reads.
    pub(crate) holds: Holds,
}

impl Header {
    pub(crate) fn new(segment: &Shared, geometry: &Geometry) -> Header {
        let words = segment.part(0, geometry.header());
        let holds = Holds::new(words.part(HOLDS_OFFSET, Holds::bytes(MAX_MEMBERS)));
        let changes = SharedWord::new(&words, CHANGES_OFFSET);
        Header { words, changes, holds }
    }

    /// Write the header. The magic number comes last, because readers take a file without it for unfinished.
    pub(crate) fn write(&self, geometry: &Geometry) {
        let Geometry { members, frame, granule, .. } = *geometry;
        for (nth, number) in [members, frame, granule].into_iter().enumerate() {
            self.words.word(GEOMETRY_OFFSET + nth * 4).store(number as u32, Relaxed);
        }
        self.words.word(8).store(VERSION, Relaxed);
        self.words.word(4).store(MAGIC[1], Relaxed);
        self.words.word(0).store(MAGIC[0], Release);
    }

    #[inline]
    pub(crate) fn changes(&self) -> &AtomicU32 {
        &self.changes
    }

    #[inline]
    pub(crate) fn generation(&self, member: usize) -> &AtomicU32 {
        self.words.word(MEMBERS_OFFSET + member * MEMBER_BYTES)
    }

    pub(crate) fn asleep(&self, member: usize) -> SleepWord {
        SleepWord::at(&self.words, MEMBERS_OFFSET + member * MEMBER_BYTES + ASLEEP_OFFSET)
    }

    /// Write which process this member is.
    pub(crate) fn set_process(&self, member: usize, process: &Process) {
        let at = MEMBERS_OFFSET + member * MEMBER_BYTES;
        let halves = [process.secret_at, process.secret].map(|number| [number as u32, (number >> 32) as u32]);
        for (nth, half) in halves.into_iter().flatten().enumerate() {
            self.words.word(at + SECRET_OFFSET + 4 * nth).store(half, Relaxed);
        }
        self.words.word(at + PROCESS_OFFSET).store(process.id, Relaxed);
    }

    /// The process of a member, as it says.
    pub(crate) fn process(&self, member: usize) -> Process {
        let at = MEMBERS_OFFSET + member * MEMBER_BYTES;
        let word = |offset: usize| u64::from(self.words.word(at + offset).load(Relaxed));
        let number = |offset: usize| word(offset) | word(offset + 4) << 32;
        Process { id: word(PROCESS_OFFSET) as u32, secret_at: number(SECRET_OFFSET), secret: number(SECRET_OFFSET + 8) }
    }

    /// How long this number has had no owner.
    pub(crate) fn free_for(&self, member: usize) -> Duration {
        let left = self.words.word(MEMBERS_OFFSET + member * MEMBER_BYTES + LEFT_OFFSET).load(Relaxed);
        Duration::from_millis(milliseconds().wrapping_sub(left).into())
    }

    /// A member joined or left: make all members read the list again.
    pub(crate) fn notify_members(&self) {
        self.changes().fetch_add(1, Release);
    }

    /// Remove a member from the list, unless another one has its number already.
    pub(crate) fn remove_member(&self, member: usize, birth: u32) {
        if self.generation(member).compare_exchange(birth, 0, Release, Relaxed).is_ok() {
            self.words.word(MEMBERS_OFFSET + member * MEMBER_BYTES + LEFT_OFFSET).store(milliseconds(), Relaxed);
            self.notify_members();
        }
    }
}

/// Milliseconds of a clock that all processes of the host share. They wrap after 49 days.
fn milliseconds() -> u32 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| (time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000) as u32)
}
