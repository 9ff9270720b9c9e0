//! Memory, mapped.

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

use crate::OpenError;

/// A mapping; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is nothing but the right to unmap the memory, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference to it can do nothing with the memory.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours, and whoever uses the memory keeps this.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// The pages of a file, shared with all who map it.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    mapping: Arc<Mapping>,
    pub(crate) memory: Shared,
}

impl Mapped {
    /// The first `bytes` bytes of a file; huge pages where `huge` says that there may be some.
    pub(crate) fn new(file: &File, bytes: usize, huge: bool) -> io::Result<Mapped> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes touches nobody's memory.
        let base =
            unsafe { mmap(None, length, access, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE, file, 0) }?.cast();
        let mapping = Arc::new(Mapping { base, bytes });
        if huge {
            // SAFETY: advice about our own mapping; where it is not taken, pages are small.
            let _ = unsafe { madvise(base.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
        }
        // SAFETY: pages are aligned and a multiple of a line; the mapping lives in what is kept, and is reached through `Shared` only.
        let memory = unsafe { Shared::over(base, bytes, mapping.clone()) };
        Ok(Mapped { mapping, memory })
    }

    /// Have the kernel enter the pages now, not when a frame comes.
    ///
    /// # Errors
    /// There are none, and no memory for any: whoever touched them would be killed.
    pub(crate) fn touch(&self, offset: usize, bytes: usize) -> io::Result<()> {
        assert!(offset + bytes <= self.mapping.bytes, "a range beyond the end");
        // SAFETY: the range is the mapping's, as was just checked, and the call changes nothing that is in it.
        let done =
            unsafe { libc::madvise(self.mapping.base.as_ptr().add(offset).cast(), bytes, libc::MADV_POPULATE_WRITE) };
        match Errno::result(done) {
            // A kernel before 5.14 does not know it, and enters them when they are used.
            Ok(_) | Err(Errno::EINVAL) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Where it starts: as `/proc/self/smaps` names it.
    pub(crate) fn address(&self) -> usize {
        self.mapping.base.as_ptr().addr()
    }
}

/// Frames start on lines of their own, and not all at the same place of a page: their first lines would have to
/// share few places of the cache.
const LINE: usize = 128;

/// A pool of this process's own memory, in huge pages where there are, all of it there.
pub(crate) fn pool(frames: usize, longest: usize) -> Result<Pool, OpenError> {
    let mut stride = longest.next_multiple_of(LINE);
    if stride.is_multiple_of(1024) {
        stride += LINE;
    }
    memory::check(frames, stride)?;
    let layout = Layout { frames, stride, headroom: 0 };
    let none = LayoutError::Memory { frames, stride };
    let bytes = layout.bytes().next_multiple_of(1 << 21);
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = NonZeroUsize::new(bytes).ok_or(none)?;
    // SAFETY: a new mapping wherever the kernel likes touches nobody's memory.
    let base = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }.map_err(|_| none)?.cast();
    let mapping = Mapping { base, bytes };
    // SAFETY: advice about our own mapping; where it is not taken, pages are small, or come when they are used.
    unsafe {
        let _ = madvise(base.cast(), bytes, MmapAdvise::MADV_HUGEPAGE);
        libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE);
    }
    // SAFETY: so much zeroed memory, which stays until the mapping is dropped, and nobody else's.
    Ok(unsafe { Pool::over(base, layout, Box::new(mapping)) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system ends whoever touches more than there is.
    #[test]
    fn a_pool_that_is_larger_than_all_memory_is_refused() {
        let error = pool(1 << 31, 1 << 16).unwrap_err();
        assert!(matches!(error, OpenError::Memory(_)) && error.to_string().contains("lower `frames=`"), "{error}");
    }
}
