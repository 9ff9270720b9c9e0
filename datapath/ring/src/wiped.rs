//! Memory whose first page the kernel clears in every process that is forked from this one.

use std::io;
use std::ptr::NonNull;

/// A page that is cleared in forked children, and memory behind it that is not. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct WipedPage {
    base: NonNull<u8>,
    /// Of the first page, and of all.
    page: usize,
    bytes: usize,
}

impl WipedPage {
    /// Bytes at the end of the first page that its owner may use.
    pub(crate) const ROOM: usize = 64;

    /// Map a page, and this many bytes behind it.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(behind: usize) -> io::Result<WipedPage> {
        let page = page_size();
        let bytes = page + behind.next_multiple_of(page);
        Ok(WipedPage { base: map(page, bytes)?, page, bytes })
    }

    /// The end of the first page, and the start of the memory behind it.
    pub(crate) fn end(&self) -> NonNull<u8> {
        // SAFETY: the mapping has at least that page.
        unsafe { self.base.add(self.page) }
    }
}

#[cfg(not(miri))]
mod system {
    use std::io;
    use std::num::NonZeroUsize;
    use std::ptr::NonNull;

    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
    use nix::unistd::{SysconfVar, sysconf};

    pub(super) fn page_size() -> usize {
        sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| usize::try_from(size).ok()).unwrap_or(4096)
    }

    pub(super) fn map(page: usize, bytes: usize) -> io::Result<NonNull<u8>> {
        let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses the place, so no other mapping is replaced.
        let base = unsafe { mmap_anonymous(None, length, access, flags) }?;
        // SAFETY: the page is ours alone, and nothing is in it yet.
        let wiped = unsafe { madvise(base, page, MmapAdvise::MADV_WIPEONFORK) };
        // SAFETY: mapped above, with this length, and not used.
        wiped.inspect_err(|_| unsafe { unmap(base.cast(), bytes) })?;
        Ok(base.cast())
    }

    /// # Safety
    /// Mapped with this length, and not used again.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's.
        let _ = unsafe { munmap(base.cast(), bytes) };
    }
}

/// Under Miri there are no forks, and no mappings.
#[cfg(miri)]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    pub(super) fn page_size() -> usize {
        4096
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, page_size()).expect("a small layout")
    }

    pub(super) fn map(_page: usize, bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: not empty.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// Mapped with this length, and not used again.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { dealloc(base.as_ptr(), layout(bytes)) }
    }
}

use system::{map, page_size, unmap};

impl Drop for WipedPage {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; whoever uses the memory keeps this value.
        unsafe { unmap(self.base, self.bytes) }
    }
}
