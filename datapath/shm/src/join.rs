//! Joining and leaving a segment, and removing segments that have no member left. All of it happens under a lock, in one
//! process at a time.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::*;

use am_ring::own::{Own, high};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit};

use crate::ShmOpenError;
use crate::errors::system;
use crate::header::{self, Geometry, Header};
use crate::locks::{self, JoinLock};
use crate::map::{MappedFile, SegmentPages};
use crate::options::{DEFAULT_FRAME, DEFAULT_MEMBERS, MAX_MEMBERS, ShmOptions};
use crate::segment_path::SegmentPath;

/// Membership in a segment; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) header: Header,
    pub(crate) mapped: MappedFile,
    pub(crate) geometry: Geometry,
    pub(crate) pages: SegmentPages,
    pub(crate) place: SegmentPath,
    /// Our member number. The generation distinguishes us from earlier members with this number.
    pub(crate) member: usize,
    pub(crate) generation: u32,
    file: Own<File>,
}

impl Membership {
    /// Join the segment, or make it. Other members do not see us before [`announce`](Self::announce).
    pub(crate) fn join(options: &ShmOptions) -> Result<Membership, ShmOpenError> {
        let place = SegmentPath::new(&options.dir, &options.name)?;
        loop {
            let file = Own::new(high(place.open_or_make(options.mode, options.owner)?));
            let attempt = Attempt { place: &place, file: &file, options };
            if let Some(Joined { header, mapped, geometry, pages, member, generation }) = attempt.run()? {
                return Ok(Membership { header, mapped, geometry, pages, place, member, generation, file });
            }
        }
    }

    /// Announce this member to the others.
    pub(crate) fn announce(&self) {
        self.header.asleep(self.member).store(0, Relaxed);
        self.header.generation(self.member).store(self.generation, Release);
        self.header.notify_members();
    }

    /// Whether the process of this member and generation lives.
    pub(crate) fn is_alive(&self, member: usize, generation: u32) -> bool {
        locks::is_generation_alive(&self.file, member, generation)
    }

    /// Whether this member exists, with memory for the lanes between it and us. The list of members may be forged, and
    /// the kernel kills a process that touches a page without memory.
    pub(crate) fn is_reachable(&self, member: usize, generation: u32) -> bool {
        let lanes = self.geometry.lanes_between(self.member, member);
        self.is_alive(member, generation)
            && lanes.iter().all(|lane| self.mapped.populate(*lane, self.geometry.lane()).is_ok())
    }

    /// Damage to the segment by a process that may write its file or directory: the file was removed or cut short.
    pub(crate) fn segment_error(&self) -> Option<&'static str> {
        match self.file.metadata() {
            Ok(data) if data.len() >= self.geometry.bytes() as u64 => (data.nlink() == 0).then_some(
                "the file of the segment was removed, so processes that start now cannot join: restart all processes that use it",
            ),
            _ => Some("the file of the segment was cut short: end all processes that use it"),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // With the file the locks are gone, too.
        let is_lost = self.file.is_lost() || self.place.is_lost();
        if !is_lost {
            locks::end_generation(&self.file, self.member);
        }
        self.header.remove_member(self.member, self.generation);
        if is_lost {
            return;
        }
        // If the lock cannot be taken, the next process that joins cleans up.
        let Ok(Some(_lock)) = JoinLock::acquire(&self.file) else { return };
        self.place.remove_fifo(self.member);
        leave(&self.place, &self.file);
    }
}

/// The result of joining: the fields of a [`Membership`].
struct Joined {
    header: Header,
    mapped: MappedFile,
    geometry: Geometry,
    pages: SegmentPages,
    member: usize,
    generation: u32,
}

struct Attempt<'a> {
    place: &'a SegmentPath,
    file: &'a File,
    options: &'a ShmOptions,
}

impl Attempt<'_> {
    /// `None` if the last member has left and removed the file while we waited.
    fn run(&self) -> Result<Option<Joined>, ShmOpenError> {
        let lock = JoinLock::acquire(self.file).map_err(system("cannot lock the segment"))?;
        let seconds = locks::LOCK_TIMEOUT.as_secs();
        let _lock = lock.ok_or_else(|| ShmOpenError::Busy { path: self.place.path(), seconds })?;
        if !self.place.refers_to(self.file).map_err(system("cannot read the segment's metadata"))? {
            return Ok(None);
        }
        let joined = self.join();
        if !matches!(joined, Ok(_) | Err(ShmOpenError::Foreign { .. })) {
            leave(self.place, self.file);
        }
        joined.map(Some)
    }

    fn join(&self) -> Result<Joined, ShmOpenError> {
        let living: Vec<usize> = (0..MAX_MEMBERS).filter(|member| locks::is_alive(self.file, *member)).collect();
        let pages = SegmentPages::of(self.file);
        let geometry = match header::read(self.file, self.place.path()) {
            Ok(_) | Err(ShmOpenError::Version { .. } | ShmOpenError::Broken { .. }) if living.is_empty() => {
                self.make(pages)?
            }
            Ok(Some(geometry)) => geometry,
            Ok(None) => return Err(self.broken("its header is gone")),
            Err(why) => return Err(why),
        };
        check_setting("frame", self.options.frame, geometry.frame)?;
        check_setting("members", self.options.members, geometry.members)?;
        let mapped = MappedFile::new(self.file, geometry.bytes(), pages == SegmentPages::MaybeHuge)
            .map_err(|source| ShmOpenError::Map { bytes: geometry.bytes(), source })?;
        self.populate(&mapped, 0, geometry.header())?;
        let header = Header::new(&mapped.memory, &geometry);
        if living.is_empty() {
            header.write(&geometry);
        }
        // Different each time, so that other members can distinguish us from an earlier member with this number.
        let generation = locks::random_nonzero();
        let member = self.claim_number(&geometry, generation)?;
        for other in (0..geometry.members).filter(|other| *other != member) {
            if living.contains(&other) {
                // Now, because later there may be no memory, and the kernel kills a process that touches a page without.
                for lane in geometry.lanes_between(member, other) {
                    self.allocate(lane, geometry.lane())?;
                    self.populate(&mapped, lane, geometry.lane())?;
                }
            } else {
                // Killed members are still in the list.
                header.remove_member(other, header.generation(other).load(Relaxed));
            }
        }
        Ok(Joined { header, mapped, geometry, pages, member, generation })
    }

    /// Make a new segment. The content of a segment without living members is discarded.
    fn make(&self, pages: SegmentPages) -> Result<Geometry, ShmOpenError> {
        (0..MAX_MEMBERS).for_each(|member| self.place.remove_fifo(member));
        remove_abandoned(self.place);
        let (members, frame) =
            (self.options.members.unwrap_or(DEFAULT_MEMBERS), self.options.frame.unwrap_or(DEFAULT_FRAME));
        let geometry =
            Geometry::new(members, frame, pages.granule()).ok_or_else(|| self.broken("pages of this size"))?;
        // The system ends a process that exceeds the limit.
        let (bytes, limit) =
            (geometry.bytes() as u64, getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft));
        if bytes > limit {
            return Err(ShmOpenError::FileSize { bytes, most: limit });
        }
        let set_length = |bytes| self.file.set_len(bytes).map_err(|why| self.no_space(bytes as usize, why));
        set_length(0)?;
        set_length(bytes)?;
        self.allocate(0, geometry.header())?;
        Ok(geometry)
    }

    /// Claim the first free member number.
    fn claim_number(&self, geometry: &Geometry, generation: u32) -> Result<usize, ShmOpenError> {
        for member in 0..geometry.members {
            if locks::claim(self.file, member, generation).map_err(system("cannot lock the segment"))? {
                return Ok(member);
            }
        }
        Err(ShmOpenError::Full { members: geometry.members })
    }

    fn allocate(&self, offset: usize, bytes: usize) -> Result<(), ShmOpenError> {
        loop {
            match fallocate(self.file, FallocateFlags::empty(), offset as i64, bytes as i64) {
                Err(Errno::EINTR) => (),
                done => return done.map_err(|why| self.no_space(bytes, why.into())),
            }
        }
    }

    fn populate(&self, mapped: &MappedFile, offset: usize, bytes: usize) -> Result<(), ShmOpenError> {
        mapped.populate(offset, bytes).map_err(|why| self.no_space(bytes, why))
    }

    fn no_space(&self, bytes: usize, source: std::io::Error) -> ShmOpenError {
        ShmOpenError::Space { dir: self.place.dir().to_owned(), bytes, source }
    }

    fn broken(&self, why: &str) -> ShmOpenError {
        ShmOpenError::Broken { path: self.place.path(), why: why.into() }
    }
}

/// Check a setting that was asked for against the segment's.
fn check_setting(setting: &'static str, asked: Option<usize>, has: usize) -> Result<(), ShmOpenError> {
    match asked {
        Some(asked) if asked != has => Err(ShmOpenError::Conflict { setting, has, asked }),
        _ => Ok(()),
    }
}

/// Give up membership. If no other member is left, remove the segment and the FIFOs that killed members have left.
fn leave(place: &SegmentPath, file: &File) {
    locks::release_all(file);
    let others = (0..MAX_MEMBERS).any(|member| locks::is_alive(file, member));
    if !others && place.refers_to(file).unwrap_or(false) {
        (0..MAX_MEMBERS).for_each(|member| place.remove_fifo(member));
        place.remove();
    }
}

/// Remove abandoned segments of other names. A process that makes a segment does this. A segment that
/// cannot be removed is left to the next process.
fn remove_abandoned(place: &SegmentPath) {
    let Ok(files) = std::fs::read_dir(place.dir()) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix("am-")?.strip_suffix(".shm"));
        if let Some(other) = name.and_then(|name| place.sibling(name)) {
            remove_if_abandoned(&other);
        }
    }
}

/// Remove a segment if it is one of ours and has no member. Does not wait.
fn remove_if_abandoned(place: &SegmentPath) -> Option<()> {
    let file = place.open().ok()?;
    let _lock = JoinLock::try_acquire(&file).ok()??;
    let is_ours = matches!(header::read(&file, place.path()), Ok(Some(_)) | Err(ShmOpenError::Broken { .. }));
    if !is_ours || !place.refers_to(&file).ok()? || (0..MAX_MEMBERS).any(|member| locks::is_alive(&file, member)) {
        return None;
    }
    leave(place, &file);
    Some(())
}
