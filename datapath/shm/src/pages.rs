//! Finds out the page size of a segment.

use std::fs::{self, File};

use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};

/// The pages of a file's memory, with their size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPages {
    /// Base pages: 4 KiB, or on other processors 16 or 64 KiB.
    Small(usize),
    /// Huge pages of tmpfs, where it has some.
    MaybeHuge,
    /// Huge pages of hugetlbfs, all of this size.
    Huge(usize),
}

const HUGE_PAGE: usize = 2 << 20;

impl SegmentPages {
    /// The pages of this file.
    pub(crate) fn of(file: &File) -> SegmentPages {
        match fstatfs(file) {
            Ok(system) if system.filesystem_type() == HUGETLBFS_MAGIC => {
                SegmentPages::Huge(system.block_size() as usize)
            }
            _ => tmpfs_pages(&fs::read_to_string(SHMEM_SETTING).unwrap_or_default(), base_page()),
        }
    }

    /// The parts of the segment start and end at multiples of this size.
    pub(crate) fn granule(self) -> usize {
        match self {
            SegmentPages::Small(bytes) | SegmentPages::Huge(bytes) => bytes,
            SegmentPages::MaybeHuge => HUGE_PAGE,
        }
    }

    /// The mode as text. `start` is the address at which the segment is mapped.
    pub(crate) fn mode(self, start: usize) -> String {
        let bytes = match self {
            SegmentPages::Small(bytes) | SegmentPages::Huge(bytes) => bytes,
            SegmentPages::MaybeHuge if is_huge(&fs::read_to_string("/proc/self/smaps").unwrap_or_default(), start) => {
                HUGE_PAGE
            }
            SegmentPages::MaybeHuge => base_page(),
        };
        match bytes >> 20 {
            0 => format!("shared memory, {} KiB pages", bytes >> 10),
            mib => format!("shared memory, {mib} MiB pages"),
        }
    }
}

const SHMEM_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Bytes of a base page. The kernel refuses advice about a range that does not start at a page.
fn base_page() -> usize {
    // SAFETY: the call only reads a constant, which POSIX requires to exist.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.try_into().unwrap_or(4096)
}

/// The pages of tmpfs, by the kernel's setting: the active word is in brackets.
fn tmpfs_pages(setting: &str, small: usize) -> SegmentPages {
    let on = ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|word| setting.contains(word));
    if on { SegmentPages::MaybeHuge } else { SegmentPages::Small(small) }
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

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(tmpfs_pages("always within_size [advise] never deny force\n", 4096), SegmentPages::MaybeHuge);
        assert_eq!(tmpfs_pages("always within_size advise [never] deny force\n", 65536), SegmentPages::Small(65536));
        assert_eq!(tmpfs_pages("", 4096), SegmentPages::Small(4096));
        let smaps = "7f00-7f10 rw-s 0 00:01 /a\nShmemPmdMapped:  0 kB\n7f20-7f30 rw-s 0 00:01 /b\nRss: 4 kB\nShmemPmdMapped:   2048 kB\n";
        assert!(!is_huge(smaps, 0x7f00) && is_huge(smaps, 0x7f20) && !is_huge(smaps, 0x1));
    }

    #[test]
    fn modes_say_the_size() {
        assert_eq!(SegmentPages::Small(4096).mode(0), "shared memory, 4 KiB pages");
        assert_eq!(SegmentPages::Small(65536).mode(0), "shared memory, 64 KiB pages");
        assert_eq!(SegmentPages::Huge(2 << 20).mode(0), "shared memory, 2 MiB pages");
    }

    #[test]
    fn parts_start_at_pages_of_any_size() {
        for bytes in [4096, 16384, 65536, 2 << 20] {
            assert_eq!(SegmentPages::Small(bytes).granule() % bytes, 0);
            assert_eq!(SegmentPages::MaybeHuge.granule() % bytes, 0);
        }
        assert!(base_page().is_power_of_two() && base_page() >= 4096);
    }
}
