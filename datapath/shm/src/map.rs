//! Maps the segment, in pages of a size that its file has, and the memory of the pool.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

use am_ring::lane::Shared;
use am_ring::{Layout, LayoutError, Pool};
use am_transport::memory;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};

use crate::ShmOpenError;

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// A mapping; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value is only the right to unmap the memory, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Keep the open file of this descriptor, and its locks, after the descriptor was closed. A forked child does not get the mapping,
    /// so it keeps neither.
    pub(crate) fn keep_file(file: &File, bytes: usize) -> io::Result<Mapping> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory. It cannot be read or written.
        let base = unsafe { mmap(None, length, ProtFlags::PROT_NONE, flags, file, 0) }?.cast();
        let mapping = Mapping { base, bytes };
        // SAFETY: advice about our own mapping.
        unsafe { madvise(base.cast(), bytes, MmapAdvise::MADV_DONTFORK) }?;
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all users of the memory keep this value.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// A mapped file, shared with all processes that map it.
#[derive(Clone, Debug)]
pub(crate) struct MappedFile {
    mapping: Arc<Mapping>,
    pub(crate) memory: Shared,
}

impl MappedFile {
    /// Map the first `bytes` bytes of a file. `huge`: ask for huge pages.
    pub(crate) fn new(file: &File, bytes: usize, huge: bool) -> io::Result<MappedFile> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
        let base =
            unsafe { mmap(None, length, access, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE, file, 0) }?.cast();
        let mapping = Arc::new(Mapping { base, bytes });
        if huge {
            // SAFETY: advice about our own mapping. If the kernel ignores it, pages are small.
            let _ = unsafe { madvise(base.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
        }
        // SAFETY: pages are aligned, and a multiple of a cache line. `Shared` keeps the mapping, and is the only access
        // to it.
        let memory = unsafe { Shared::over(base, bytes, mapping.clone()) };
        Ok(MappedFile { mapping, memory })
    }

    /// Have the kernel map the pages now, and not when the first frame comes.
    ///
    /// # Errors
    /// There is no memory for the pages. The kernel would kill a process that touches them.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        assert!(offset + bytes <= self.mapping.bytes, "a range beyond the end");
        // SAFETY: the range is inside the mapping, as was just checked, and the call does not change its content.
        let done =
            unsafe { libc::madvise(self.mapping.base.as_ptr().add(offset).cast(), bytes, libc::MADV_POPULATE_WRITE) };
        match Errno::result(done) {
            // A kernel before 5.14 does not know this advice, and maps pages when they are used.
            Ok(_) | Err(Errno::EINVAL) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// The start address, as `/proc/self/smaps` shows it.
    pub(crate) fn address(&self) -> usize {
        self.mapping.base.as_ptr().addr()
    }
}

/// The first `bytes` bytes of a file as words that processes share, with nothing above them: the baseline for frames
/// through shared memory. This is not a transport, and not for applications.
///
/// # Errors
/// The system's; the file is too short, or `bytes` no number of whole lines.
pub fn shared_lines(file: &File, bytes: usize) -> io::Result<Shared> {
    if !bytes.is_multiple_of(LINE) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if file.metadata()?.len() < bytes as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mapped = MappedFile::new(file, bytes, false)?;
    mapped.populate(0, bytes)?;
    Ok(mapped.memory)
}

/// Frames start on separate cache lines, and not all at the same offset of a page: otherwise their first lines would
/// share a few sets of the cache.
const FRAME_ALIGN: usize = 128;

/// A pool in this process's private memory, in huge pages if possible. All of its pages are mapped at once.
pub(crate) fn pool(frames: usize, longest: usize) -> Result<Pool, ShmOpenError> {
    let mut stride = longest.next_multiple_of(FRAME_ALIGN);
    if stride.is_multiple_of(1024) {
        stride += FRAME_ALIGN;
    }
    memory::check(frames, stride)?;
    let layout = Layout { frames, stride, headroom: 0 };
    let none = LayoutError::Memory { frames, stride };
    let bytes = layout.bytes().next_multiple_of(1 << 21);
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = NonZeroUsize::new(bytes).ok_or(none)?;
    // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
    let base = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }.map_err(|_| none)?.cast();
    let mapping = Mapping { base, bytes };
    // SAFETY: advice about our own mapping. If the kernel ignores it, pages are small, or mapped when they are used.
    unsafe {
        let _ = madvise(base.cast(), bytes, MmapAdvise::MADV_HUGEPAGE);
        libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE);
    }
    // SAFETY: the memory has this size, is zeroed, has no other user, and stays until the mapping is dropped.
    Ok(unsafe { Pool::over(base, layout, Box::new(mapping)) }?)
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
            _ => tmpfs_pages(&fs::read_to_string(SHMEM_SETTING).unwrap_or_default(), base_page()),
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
        assert!(base_page().is_power_of_two() && base_page() >= 4096);
    }
}
