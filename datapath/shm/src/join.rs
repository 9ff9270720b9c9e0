//! Joining and leaving a segment, and removing segments that have no member left. All of it happens under a lock, in one
//! process at a time.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::*;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit};

use crate::OpenError;
use crate::errors::system;
use crate::header::{self, Found, Geometry, Header, agree, refused};
use crate::locks::{self, Gate};
use crate::map::Mapped;
use crate::options::{FRAME, MEMBERS, MOST_MEMBERS, Options};
use crate::pages::Pages;
use crate::place::Place;

/// Membership in a segment; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) header: Header,
    pub(crate) mapped: Mapped,
    pub(crate) geometry: Geometry,
    pub(crate) pages: Pages,
    pub(crate) place: Place,
    /// Our member number. The generation distinguishes us from earlier members with this number.
    pub(crate) own: usize,
    pub(crate) birth: u32,
    file: File,
}

impl Membership {
    /// Join the segment, or make it. Other members do not see us before [`show`](Self::show).
    pub(crate) fn join(options: &Options) -> Result<Membership, OpenError> {
        let place = Place::new(&options.dir, &options.name)?;
        loop {
            let file = place.open_or_make(options.mode, options.owner)?;
            let attempt = Attempt { place: &place, file: &file, options };
            if let Some(joined) = attempt.run()? {
                return Ok(joined.with(place, file));
            }
        }
    }

    /// Announce this member to the others.
    pub(crate) fn show(&self) {
        self.header.asleep(self.own).store(0, Relaxed);
        self.header.birth(self.own).store(self.birth, Release);
        self.header.tell();
    }

    /// Whether the process of this member and generation lives.
    pub(crate) fn is_alive(&self, member: usize, birth: u32) -> bool {
        locks::is_run(&self.file, member, birth)
    }

    /// Whether this member exists, with memory for the lanes between it and us. The list of members may be forged, and
    /// the kernel kills a process that touches a page without memory.
    pub(crate) fn can_meet(&self, member: usize, birth: u32) -> bool {
        let lanes = [self.geometry.lane_at(self.own, member), self.geometry.lane_at(member, self.own)];
        self.is_alive(member, birth) && lanes.iter().all(|lane| self.mapped.touch(*lane, self.geometry.lane()).is_ok())
    }

    /// Damage to the segment by a process that may write its file or directory: the file was removed or cut short.
    pub(crate) fn harm(&self) -> Option<&'static str> {
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
        locks::end_run(&self.file, self.own);
        self.header.bury(self.own, self.birth);
        // If the lock cannot be taken, the next process that joins cleans up.
        let Ok(Some(_gate)) = Gate::pass(&self.file) else { return };
        self.place.remove_fifo(self.own);
        leave(&self.place, &self.file);
    }
}

/// The result of joining.
struct Joined {
    mapped: Mapped,
    geometry: Geometry,
    pages: Pages,
    own: usize,
    birth: u32,
}

impl Joined {
    fn with(self, place: Place, file: File) -> Membership {
        let Joined { mapped, geometry, pages, own, birth } = self;
        let header = Header::new(&mapped.memory, &geometry);
        Membership { header, mapped, geometry, pages, place, own, birth, file }
    }
}

struct Attempt<'a> {
    place: &'a Place,
    file: &'a File,
    options: &'a Options,
}

impl Attempt<'_> {
    /// `None` if the last member has left and removed the file while we waited.
    fn run(&self) -> Result<Option<Joined>, OpenError> {
        let gate = Gate::pass(self.file).map_err(system("cannot lock the segment"))?;
        let seconds = locks::PATIENCE.as_secs();
        let _gate = gate.ok_or_else(|| OpenError::Busy { path: self.place.path(), seconds })?;
        if !self.place.leads_to(self.file).map_err(system("cannot ask about the segment"))? {
            return Ok(None);
        }
        let joined = self.join();
        if !matches!(joined, Ok(_) | Err(OpenError::Foreign { .. })) {
            leave(self.place, self.file);
        }
        joined.map(Some)
    }

    fn join(&self) -> Result<Joined, OpenError> {
        let living: Vec<usize> = (0..MOST_MEMBERS).filter(|member| locks::is_alive(self.file, *member)).collect();
        let found = header::look(self.file).map_err(system("cannot read the segment"))?;
        let pages = Pages::of(self.file);
        let geometry = match found {
            Found::Foreign => return Err(refused(found, &self.place.path())),
            _ if living.is_empty() => self.make(pages)?,
            Found::Segment(geometry) => geometry,
            _ => return Err(refused(found, &self.place.path())),
        };
        agree("frame", self.options.frame, geometry.frame)?;
        agree("members", self.options.members, geometry.members)?;
        let mapped = self.map(&geometry, pages)?;
        if living.is_empty() {
            Header::new(&mapped.memory, &geometry).write(&geometry);
        }
        // Different each time, so that other members do not take us for an earlier one.
        let birth = locks::draw();
        let own = self.number(&geometry, birth)?;
        let header = Header::new(&mapped.memory, &geometry);
        for other in (0..geometry.members).filter(|other| *other != own) {
            if living.contains(&other) {
                self.meet(&mapped, &geometry, own, other)?;
            } else {
                // Killed members are still in the list.
                header.bury(other, header.birth(other).load(Relaxed));
            }
        }
        Ok(Joined { mapped, geometry, pages, own, birth })
    }

    /// Make a new segment. Nothing is kept of one whose members are all dead.
    fn make(&self, pages: Pages) -> Result<Geometry, OpenError> {
        (0..MOST_MEMBERS).for_each(|member| self.place.remove_fifo(member));
        remove_abandoned(self.place);
        let (members, frame) = (self.options.members.unwrap_or(MEMBERS), self.options.frame.unwrap_or(FRAME));
        let geometry = Geometry::new(members, frame, pages.granule());
        let geometry = geometry.ok_or_else(|| refused(Found::Broken("pages of this size"), &self.place.path()))?;
        // The system ends a process that exceeds the limit.
        let (bytes, most) =
            (geometry.bytes() as u64, getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(most, _)| most));
        if bytes > most {
            return Err(OpenError::FileSize { bytes, most });
        }
        let cut = |bytes| self.file.set_len(bytes).map_err(|why| self.no_space(bytes as usize, why));
        cut(0)?;
        cut(geometry.bytes() as u64)?;
        self.allocate(0, geometry.header())?;
        Ok(geometry)
    }

    fn map(&self, geometry: &Geometry, pages: Pages) -> Result<Mapped, OpenError> {
        let mapped = Mapped::new(self.file, geometry.bytes(), pages == Pages::Maybe);
        let mapped = mapped.map_err(|source| OpenError::Map { bytes: geometry.bytes(), source })?;
        let touched = mapped.touch(0, geometry.header());
        touched.map(|()| mapped).map_err(|why| self.no_space(geometry.header(), why))
    }

    /// Claim the first free member number.
    fn number(&self, geometry: &Geometry, birth: u32) -> Result<usize, OpenError> {
        for member in 0..geometry.members {
            if locks::be(self.file, member, birth).map_err(system("cannot lock the segment"))? {
                return Ok(member);
            }
        }
        Err(OpenError::Full { members: geometry.members })
    }

    /// Allocate memory for the two lanes between us and another member now. Later there may be none, and the kernel
    /// kills a process that touches a page without memory.
    fn meet(&self, mapped: &Mapped, geometry: &Geometry, own: usize, other: usize) -> Result<(), OpenError> {
        for lane in [geometry.lane_at(own, other), geometry.lane_at(other, own)] {
            self.allocate(lane, geometry.lane())?;
            mapped.touch(lane, geometry.lane()).map_err(|why| self.no_space(geometry.lane(), why))?;
        }
        Ok(())
    }

    fn allocate(&self, offset: usize, bytes: usize) -> Result<(), OpenError> {
        loop {
            match fallocate(self.file, FallocateFlags::empty(), offset as i64, bytes as i64) {
                Err(Errno::EINTR) => (),
                done => return done.map_err(|why| self.no_space(bytes, why.into())),
            }
        }
    }

    fn no_space(&self, bytes: usize, source: std::io::Error) -> OpenError {
        let dir: &Path = self.place.dir();
        OpenError::Space { dir: dir.to_owned(), bytes, source }
    }
}

/// Give up membership. If no other member is left, remove the segment and the FIFOs that killed members have left.
fn leave(place: &Place, file: &File) {
    locks::cease(file);
    let others = (0..MOST_MEMBERS).any(|member| locks::is_alive(file, member));
    if !others && place.leads_to(file).unwrap_or(false) {
        (0..MOST_MEMBERS).for_each(|member| place.remove_fifo(member));
        place.remove();
    }
}

/// Remove abandoned segments of other names. A process that makes a segment does this. What fails is left to the next
/// one.
fn remove_abandoned(place: &Place) {
    let Ok(files) = std::fs::read_dir(place.dir()) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix("am-")?.strip_suffix(".shm"));
        if let Some(other) = name.and_then(|name| place.beside(name)) {
            remove_if_abandoned(&other);
        }
    }
}

/// Remove a segment if it is one of ours and has no member. Does not wait.
fn remove_if_abandoned(place: &Place) -> Option<()> {
    let file = place.open().ok()?;
    let _gate = Gate::try_pass(&file)?;
    let is_ours = matches!(header::look(&file), Ok(Found::Segment(_) | Found::Broken(_)));
    if !is_ours || !place.leads_to(&file).ok()? || (0..MOST_MEMBERS).any(|member| locks::is_alive(&file, member)) {
        return None;
    }
    leave(place, &file);
    Some(())
}
