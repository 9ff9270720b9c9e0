//! Joining and leaving a segment, and removing segments that have no member left. A process does all this while it has the
//! join lock.

use std::cmp::Reverse;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use am_ring::lane::Shared;
use am_ring::own::{Own, high};
use am_ring::{Mapping, Owner};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use crate::ShmOpenError;
use crate::errors::system;
use crate::header::{self, Geometry, Header};
use crate::holder::MemberLocks;
use crate::locks::{self, JoinLock};
use crate::map::SegmentPages;
use crate::options::{DEFAULT_FRAME, DEFAULT_MEMBERS, MAX_MEMBERS, ShmOptions};
use crate::process::{Process, Secret};
use crate::segment_path::SegmentPath;

/// If a number is needed, the unread frames of its last owner are kept for this time.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// The permissions of a file that others than its owner may use.
const OTHER_USERS: u32 = 0o077;
/// What is wrong with a segment whose number was taken although this process has the join lock.
const WITHOUT_LOCK: &str = "a process takes member numbers without the lock for that";
/// The pause between two searches for a number whose lanes were read.
const UNREAD_PAUSE: Duration = Duration::from_millis(2);

/// Membership in a segment; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) header: Header,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) geometry: Geometry,
    pub(crate) pages: SegmentPages,
    pub(crate) place: SegmentPath,
    /// This process's member number. The generation distinguishes it from earlier members with this number.
    pub(crate) member: usize,
    pub(crate) generation: u32,
    pub(crate) owner: Owner,
    /// Only this user may join.
    pub(crate) is_private: bool,
    secret: Secret,
    locks: MemberLocks,
    file: Own<File>,
}

impl Membership {
    /// Join the segment, or make it. Other members do not see this one before [`announce`](Self::announce).
    pub(crate) fn join(options: &ShmOptions) -> Result<Membership, ShmOpenError> {
        let owner = Owner::new().map_err(system("no memory"))?;
        let (place, begin) = (SegmentPath::new(&options.dir, &options.name)?, Instant::now());
        loop {
            let file = Own::new(high(place.open_or_make(options.mode, options.owner)?));
            let attempt = Attempt { place: &place, file: &file, options, waited: begin.elapsed() };
            match attempt.run()? {
                Outcome::Joined(Joined { header, mapping, geometry, pages, member, generation, locks, file }) => {
                    let is_private = file
                        .metadata()
                        .is_ok_and(|data| data.uid() == geteuid().as_raw() && data.mode() & OTHER_USERS == 0);
                    return Ok(Membership {
                        header,
                        mapping,
                        geometry,
                        pages,
                        place,
                        member,
                        generation,
                        owner,
                        is_private,
                        secret: Secret::new(),
                        locks,
                        file,
                    });
                }
                Outcome::Removed => (),
                Outcome::Unread => std::thread::sleep(UNREAD_PAUSE),
            }
        }
    }

    /// Announce this member to the others.
    pub(crate) fn announce(&self) {
        let process = if self.is_private { self.secret.process() } else { Process::default() };
        self.header.set_process(self.member, &process);
        self.header.asleep(self.member).clear();
        self.header.generation(self.member).store(self.generation, Release);
        self.header.notify_members();
    }

    /// Whether the process of this member and generation lives.
    pub(crate) fn is_alive(&self, member: usize, generation: u32) -> bool {
        locks::is_generation_alive(&self.file, member, generation)
    }

    /// Whether this member lives, and there is memory for the lanes between it and this one. Both are checked because the
    /// list of members may be forged, and the kernel kills a process that touches a page without memory.
    pub(crate) fn is_reachable(&self, member: usize, generation: u32) -> bool {
        let lanes = self.geometry.lanes_between(self.member, member);
        self.is_alive(member, generation)
            && lanes.iter().all(|lane| allocate(&self.file, *lane, self.geometry.lane()).is_ok())
    }

    /// Damage to the segment by a process that may write its file or directory: the file was removed, replaced or cut
    /// short.
    pub(crate) fn segment_error(&self) -> Option<&'static str> {
        match self.file.metadata() {
            Ok(data) if data.len() >= self.geometry.bytes() as u64 => self.place.refers_to(&self.file).is_ok_and(|is| !is).then_some(
                "the file of the segment was removed or replaced, so processes that start now do not join it: restart all processes that use it",
            ),
            _ => Some("the file of the segment was cut short: end all processes that use it"),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        self.locks.end_generation();
        self.header.remove_member(self.member, self.generation);
        // If the program has closed our descriptors, the next process that joins cleans up.
        if self.file.is_lost() || self.place.is_lost() {
            return;
        }
        // If the lock cannot be taken, the next process that joins cleans up.
        let Ok(Some(_lock)) = JoinLock::acquire(&self.file) else { return };
        self.place.remove_fifo(self.member);
        self.locks.end();
        leave(&self.place, &self.file);
    }
}

/// A segment that this process may join: its layout, its header, and the numbers of the members that live.
struct Segment<'a> {
    geometry: &'a Geometry,
    header: &'a Header,
    living: &'a [usize],
}

/// The outcome of an attempt to join.
enum Outcome {
    Joined(Joined),
    /// The last member has left and removed the file meanwhile.
    Removed,
    /// The lanes of each free number have unread frames, and none has been free for [`LONGEST_WAIT`].
    Unread,
}

/// The result of joining: the fields of a [`Membership`].
struct Joined {
    header: Header,
    mapping: Arc<Mapping>,
    geometry: Geometry,
    pages: SegmentPages,
    member: usize,
    generation: u32,
    locks: MemberLocks,
    file: Own<File>,
}

struct Attempt<'a> {
    place: &'a SegmentPath,
    file: &'a File,
    options: &'a ShmOptions,
    /// How long earlier attempts took.
    waited: Duration,
}

impl Attempt<'_> {
    fn run(&self) -> Result<Outcome, ShmOpenError> {
        let lock = JoinLock::acquire(self.file).map_err(system("cannot lock the segment"))?;
        let seconds = locks::LOCK_TIMEOUT.as_secs();
        let _lock = lock.ok_or_else(|| ShmOpenError::Busy { path: self.place.path(), seconds })?;
        if !self.place.refers_to(self.file).map_err(system("cannot read the segment's metadata"))? {
            return Ok(Outcome::Removed);
        }
        let joined = self.join();
        if !matches!(joined, Ok(Some(_)) | Err(ShmOpenError::Foreign { .. })) {
            leave(self.place, self.file);
        }
        joined.map(|joined| joined.map_or(Outcome::Unread, Outcome::Joined))
    }

    /// `None` means [`Outcome::Unread`].
    fn join(&self) -> Result<Option<Joined>, ShmOpenError> {
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
        let mapping = Mapping::of_file(self.file, geometry.bytes())
            .map_err(|source| ShmOpenError::Map { bytes: geometry.bytes(), source })?;
        if pages == SegmentPages::MaybeHuge {
            mapping.prefer_huge();
        }
        let mapping = Arc::new(mapping);
        allocate(self.file, 0, geometry.header()).map_err(|why| self.no_space(geometry.header(), why.into()))?;
        let header = Header::new(&Shared::of(mapping.clone()), &geometry);
        if living.is_empty() {
            header.write(&geometry);
        }
        if living.len() >= geometry.members {
            return Err(ShmOpenError::Full { members: geometry.members });
        }
        let segment = Segment { geometry: &geometry, header: &header, living: &living };
        let Some(member) = self.claim_number(&segment)? else { return Ok(None) };
        header.holds.release_all(member);
        for other in (0..geometry.numbers()).filter(|other| *other != member && !living.contains(other)) {
            // A killed member did not remove itself from the list.
            header.remove_member(other, header.generation(other).load(Relaxed));
        }
        // Random, so that other members can distinguish this one from an earlier member with this number.
        let generation = locks::random_nonzero();
        // Under the join lock, because the number is free for a moment.
        let taken = MemberLocks::take_over(self.file, self.place, (member, generation), geometry.granule)?;
        let (locks, file) = taken.ok_or_else(|| self.broken(WITHOUT_LOCK))?;
        Ok(Some(Joined { header, mapping, geometry, pages, member, generation, locks, file }))
    }

    /// Make a new segment. The content of a segment without living members is discarded.
    fn make(&self, pages: SegmentPages) -> Result<Geometry, ShmOpenError> {
        (0..MAX_MEMBERS).for_each(|member| self.place.remove_fifo(member));
        remove_abandoned(self.place);
        let (members, frame) =
            (self.options.members.unwrap_or(DEFAULT_MEMBERS), self.options.frame.unwrap_or(DEFAULT_FRAME));
        let geometry =
            Geometry::new(members, frame, pages.granule()).ok_or_else(|| self.broken("pages of this size"))?;
        // The kernel kills a process that exceeds the limit (SIGXFSZ).
        let (bytes, limit) =
            (geometry.bytes() as u64, getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft));
        if bytes > limit {
            return Err(ShmOpenError::FileSize { bytes, most: limit });
        }
        let set_length = |bytes| self.file.set_len(bytes).map_err(|why| self.no_space(bytes as usize, why));
        set_length(0)?;
        set_length(bytes)?;
        Ok(geometry)
    }

    /// Claim the first free number whose lanes were read to the end. If there is none, or no memory for its lanes, claim the number that
    /// has been free for longest, if that is at least [`LONGEST_WAIT`]. `None` if no number can be claimed yet.
    fn claim_number(&self, segment: &Segment<'_>) -> Result<Option<usize>, ShmOpenError> {
        let (header, living) = (segment.header, segment.living);
        let free = (0..segment.geometry.numbers()).filter(|number| !living.contains(number));
        let is_unread = |number: &usize| living.iter().any(|reader| header.holds.is_kept(*reader, *number));
        let (mut unread, read): (Vec<usize>, Vec<usize>) = free.partition(is_unread);
        let are_all = !unread.is_empty();
        unread.retain(|number| header.free_for(*number).max(self.waited) >= LONGEST_WAIT);
        unread.sort_by_key(|number| Reverse(header.free_for(*number)));
        let mut failed = None;
        for number in read.into_iter().take(1).chain(unread) {
            match self.claim(segment, number) {
                Ok(()) => return Ok(Some(number)),
                Err(why @ ShmOpenError::Space { .. }) => failed = failed.or(Some(why)),
                Err(why) => return Err(why),
            }
            locks::release_all(self.file);
        }
        match failed {
            Some(why) if !are_all || self.waited >= LONGEST_WAIT => Err(why),
            _ => Ok(None),
        }
    }

    /// Claim this number, with memory for its lanes to and from all members.
    fn claim(&self, segment: &Segment<'_>, number: usize) -> Result<(), ShmOpenError> {
        if !locks::claim_number(self.file, number).map_err(system("cannot lock the segment"))? {
            return Err(self.broken(WITHOUT_LOCK));
        }
        for other in segment.living {
            // Allocate now, because later the kernel would kill a process that touches a page for which there is no memory.
            for lane in segment.geometry.lanes_between(number, *other) {
                let bytes = segment.geometry.lane();
                allocate(self.file, lane, bytes).map_err(|why| self.no_space(bytes, why.into()))?;
            }
        }
        Ok(())
    }

    fn no_space(&self, bytes: usize, source: std::io::Error) -> ShmOpenError {
        ShmOpenError::Space { dir: self.place.dir().to_owned(), bytes, source }
    }

    fn broken(&self, why: &str) -> ShmOpenError {
        ShmOpenError::Broken { path: self.place.path(), why: why.into() }
    }
}

/// Take memory for this part of the segment. The pages that have some keep it. A process maps each page when it first uses it.
fn allocate(file: &File, offset: usize, bytes: usize) -> nix::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), offset as i64, bytes as i64) {
            Err(Errno::EINTR) => (),
            done => return done,
        }
    }
}

/// Check that a setting, if it was given, is that of the segment.
fn check_setting(setting: &'static str, asked: Option<usize>, has: usize) -> Result<(), ShmOpenError> {
    match asked {
        Some(asked) if asked != has => Err(ShmOpenError::Conflict { setting, has, asked }),
        _ => Ok(()),
    }
}

/// Release the locks. If no other member is left, remove the segment, and the FIFOs of killed members.
fn leave(place: &SegmentPath, file: &File) {
    locks::release_all(file);
    let others = (0..MAX_MEMBERS).any(|member| locks::is_alive(file, member));
    if !others && place.refers_to(file).unwrap_or(false) {
        (0..MAX_MEMBERS).for_each(|member| place.remove_fifo(member));
        place.remove();
    }
}

/// Remove segments of other names that have no member. A process does this when it makes a segment. If one cannot be
/// removed, the next process tries again.
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

/// Remove a file if it is a segment of this transport, and has no member. Does not wait.
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
