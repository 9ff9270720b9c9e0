//! The pages of the segment, and the memory of the pool.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use am_ring::lane::Shared;
use am_ring::{Layout, Mapping, Pool};
use am_transport::memory;
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};

use crate::ShmOpenError;

/// The first `bytes` bytes of a file as words that processes share, with nothing above them: the baseline for frames
/// through shared memory. This is not a transport, and not for applications.
///
/// # Errors
/// The system's; the file is too short, or `bytes` no number of whole lines.
pub fn shared_lines(file: &File, bytes: usize) -> io::Result<Shared> {
    if !bytes.is_multiple_of(64) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if file.metadata()?.len() < bytes as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mapping = Mapping::of_file(file, bytes)?;
    mapping.populate(0, bytes)?;
    Ok(Shared::of(Arc::new(mapping)))
}

/// The pool of a member.
pub(crate) fn pool(frames: usize, longest: usize) -> Result<Pool, ShmOpenError> {
    let layout = Layout::spread(frames, longest);
    memory::check(frames, layout.stride)?;
    Ok(Pool::huge(layout)?)
}

/// The pages of a file's memory, with their size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPages {
    /// All of this size: base pages (4 KiB, or on other processors 16 or 64 KiB), or huge pages of hugetlbfs.
    Fixed(usize),
    /// Huge pages of tmpfs, where it has some.
    MaybeHuge,
}

const HUGE_PAGE: usize = 2 << 20;

impl SegmentPages {
    /// The pages of this file.
    pub(crate) fn of(file: &File) -> SegmentPages {
        match fstatfs(file) {
            Ok(system) if system.filesystem_type() == HUGETLBFS_MAGIC => {
                SegmentPages::Fixed(system.block_size() as usize)
            }
            _ => tmpfs_pages(&fs::read_to_string(SHMEM_SETTING).unwrap_or_default(), Mapping::page_size()),
        }
    }

    /// The parts of the segment start and end at multiples of this size.
    pub(crate) fn granule(self) -> usize {
        match self {
            SegmentPages::Fixed(bytes) => bytes,
            SegmentPages::MaybeHuge => HUGE_PAGE,
        }
    }

    /// The mode as text. `start` is the address at which the segment is mapped.
    pub(crate) fn mode(self, start: usize) -> String {
        let bytes = match self {
            SegmentPages::Fixed(bytes) => bytes,
            SegmentPages::MaybeHuge if is_huge(&fs::read_to_string("/proc/self/smaps").unwrap_or_default(), start) => {
                HUGE_PAGE
            }
            SegmentPages::MaybeHuge => Mapping::page_size(),
        };
        match bytes >> 20 {
            0 => format!("shared memory, {} KiB pages", bytes >> 10),
            mib => format!("shared memory, {mib} MiB pages"),
        }
    }
}

const SHMEM_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// The pages of tmpfs, by the kernel's setting: the active word is in brackets.
fn tmpfs_pages(setting: &str, small: usize) -> SegmentPages {
    let on = ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|word| setting.contains(word));
    if on { SegmentPages::MaybeHuge } else { SegmentPages::Fixed(small) }
}

/// Whether any part of the mapping at this address is in huge pages.
fn is_huge(smaps: &str, start: usize) -> bool {
    let first = format!("{start:x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&first));
    let size = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    size.is_some_and(|size| size.trim() != "0 kB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system would end a process that touches more memory than there is.
    #[test]
    fn a_pool_that_is_larger_than_all_memory_is_refused() {
        let error = pool(1 << 31, 1 << 16).unwrap_err();
        assert!(matches!(error, ShmOpenError::Memory(_)) && error.to_string().contains("lower `frames=`"), "{error}");
    }

    #[test]
    fn lines_of_a_file_are_whole() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        for bytes in [0, 1, 63, 100, 4095, 4097, 4160, 1 << 40, usize::MAX, usize::MAX - 63] {
            assert!(shared_lines(&file, bytes).is_err(), "{bytes}");
        }
        assert!([64, 128, 4096].iter().all(|bytes| shared_lines(&file, *bytes).is_ok()));
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(tmpfs_pages("always within_size [advise] never deny force\n", 4096), SegmentPages::MaybeHuge);
        assert_eq!(tmpfs_pages("always within_size advise [never] deny force\n", 65536), SegmentPages::Fixed(65536));
        assert_eq!(tmpfs_pages("", 4096), SegmentPages::Fixed(4096));
        let smaps = "7f00-7f10 rw-s 0 00:01 /a\nShmemPmdMapped:  0 kB\n7f20-7f30 rw-s 0 00:01 /b\nRss: 4 kB\nShmemPmdMapped:   2048 kB\n";
        assert!(!is_huge(smaps, 0x7f00) && is_huge(smaps, 0x7f20) && !is_huge(smaps, 0x1));
    }

    #[test]
    fn modes_say_the_size() {
        assert_eq!(SegmentPages::Fixed(4096).mode(0), "shared memory, 4 KiB pages");
        assert_eq!(SegmentPages::Fixed(65536).mode(0), "shared memory, 64 KiB pages");
        assert_eq!(SegmentPages::Fixed(2 << 20).mode(0), "shared memory, 2 MiB pages");
    }

    #[test]
    fn parts_start_at_pages_of_any_size() {
        for bytes in [4096, 16384, 65536, 2 << 20] {
            assert_eq!(SegmentPages::Fixed(bytes).granule() % bytes, 0);
            assert_eq!(SegmentPages::MaybeHuge.granule() % bytes, 0);
        }
    }
}
