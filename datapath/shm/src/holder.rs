//! Keeps the locks of a member until its process ends. Its children do not keep them.
//!
//! A lock belongs to the open file description, which a forked child shares: a killed member with a living child would seem to live. So
//! the descriptor of each locked file is closed, and only a mapping keeps the file open. A child does not get that mapping
//! (`MADV_DONTFORK`).

use std::fs::File;

use am_ring::Mapping;
use am_ring::own::{Own, high};
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, fstatfs,
};

use crate::ShmOpenError;
use crate::errors::system;
use crate::locks;
use crate::segment_path::SegmentPath;

/// File systems on which a mapping keeps the opened file, and so its locks. On `overlay` it keeps the file of the lower layer.
const KEEPS_FILE: [FsType; 5] = [TMPFS_MAGIC, HUGETLBFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC];

/// An open file with locks.
#[derive(Debug)]
enum Holder {
    Mapping {
        _mapping: Mapping,
    },
    /// On other file systems. Children of the process keep these locks.
    Descriptor {
        _file: Own<File>,
    },
}

impl Holder {
    fn new(file: Own<File>, granule: usize) -> Holder {
        let keeps_file = fstatfs(&*file).is_ok_and(|system| KEEPS_FILE.contains(&system.filesystem_type()));
        match keeps_file.then(|| Mapping::of_file(&*file, granule)) {
            Some(Ok(mapping)) if mapping.keep_from_children().is_ok() => Holder::Mapping { _mapping: mapping },
            _ => Holder::Descriptor { _file: file },
        }
    }
}

/// The locks of a member: one for its number, one for its generation.
#[derive(Debug)]
pub(crate) struct MemberLocks {
    number: Option<Holder>,
    generation: Option<Holder>,
}

impl MemberLocks {
    /// Move the locks of a member that is not announced yet away from `claimed`, because the segment is mapped from that open file and
    /// children inherit the mapping. Returns the locks, and another open file for queries about the locks of others. `None` if another
    /// process took the number meanwhile, without the join lock, which the caller has.
    pub(crate) fn take_over(
        claimed: &File,
        place: &SegmentPath,
        (member, generation): (usize, u32),
        granule: usize,
    ) -> Result<Option<(MemberLocks, Own<File>)>, ShmOpenError> {
        let again = || {
            let file = Own::new(high(place.open()?));
            let is_same = locks::is_alive(&file, member);
            is_same.then_some(file).ok_or_else(|| ShmOpenError::NoFile { path: place.path() })
        };
        let failed = "cannot lock the segment";
        let (for_number, for_generation, for_questions) = (again()?, again()?, again()?);
        locks::release_all(claimed);
        if !locks::claim_number(&for_number, member).map_err(system(failed))? {
            return Ok(None);
        }
        locks::lock_generation(&for_generation, member, generation).map_err(system(failed))?;
        let [number, generation] = [for_number, for_generation].map(|file| Some(Holder::new(file, granule)));
        Ok(Some((MemberLocks { number, generation }, for_questions)))
    }

    /// Release the lock of the generation, so that the other members see this one leave. The number stays taken for now.
    pub(crate) fn end_generation(&mut self) {
        self.generation = None;
    }

    /// Release both locks: the number is free from now on.
    pub(crate) fn end(&mut self) {
        (self.generation, self.number) = (None, None);
    }
}
