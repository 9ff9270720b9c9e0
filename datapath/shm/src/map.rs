//! Maps the segment, and the memory of the pool.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

use am_ring::lane::Shared;
use am_ring::{Layout, LayoutError, Pool};
use am_transport::memory;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::ShmOpenError;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The system would end a process that touches more memory than there is.
    #[test]
    fn a_pool_that_is_larger_than_all_memory_is_refused() {
        let error = pool(1 << 31, 1 << 16).unwrap_err();
        assert!(matches!(error, ShmOpenError::Memory(_)) && error.to_string().contains("lower `frames=`"), "{error}");
    }
}
