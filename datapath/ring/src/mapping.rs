//! Memory that the kernel has mapped for this process.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use libc::{MADV_DONTFORK, MADV_HUGEPAGE, MADV_POPULATE_WRITE, MADV_WIPEONFORK, c_int};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use nix::unistd::{SysconfVar, sysconf};

/// Readable and writable memory, unmapped when this is dropped. The safe calls give its address and change how the kernel backs it, but do
/// not access it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the value is an address, and the right to unmap it, which any thread has.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Mapping {}

const ACCESS: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const SHARED: MapFlags = MapFlags::MAP_SHARED.union(MapFlags::MAP_NORESERVE);

impl Mapping {
    /// Zeroed memory of this process alone.
    ///
    /// # Errors
    /// The system's.
    pub fn private(bytes: usize) -> io::Result<Mapping> {
        let bytes = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let base = unsafe { mmap_anonymous(None, bytes, ACCESS, MapFlags::MAP_PRIVATE) }?.cast();
        Ok(Mapping { base, bytes })
    }

    /// The start of a file, shared with all that map it. The kernel maps each page at its first use.
    ///
    /// # Errors
    /// The system's.
    pub fn of_file(file: impl AsFd, bytes: usize) -> io::Result<Mapping> {
        Mapping::file(file, 0, bytes, SHARED)
    }

    /// A part of a file, shared with all that map it, with all of its pages.
    ///
    /// # Errors
    /// The system's.
    pub fn populated(file: impl AsFd, offset: i64, bytes: usize) -> io::Result<Mapping> {
        Mapping::file(file, offset, bytes, SHARED | MapFlags::MAP_POPULATE)
    }

    fn file(file: impl AsFd, offset: i64, bytes: usize, flags: MapFlags) -> io::Result<Mapping> {
        let bytes = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        let base = unsafe { mmap(None, bytes, ACCESS, flags, file, offset) }?.cast();
        Ok(Mapping { base, bytes })
    }

    /// The address of its first byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Bytes of a page of the system.
    pub fn page_size() -> usize {
        sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| usize::try_from(size).ok()).unwrap_or(4096)
    }

    /// Prefer huge pages. Where the kernel has none, pages are small.
    pub fn prefer_huge(&self) {
        // SAFETY: the content stays.
        let _ = unsafe { self.advise(0, self.bytes(), MADV_HUGEPAGE) };
    }

    /// Have the kernel map these pages now. A kernel before 5.14 maps them when they are used.
    ///
    /// # Errors
    /// There is no memory for the pages. The kernel would kill a process that touches them.
    ///
    /// # Panics
    /// The range is not within.
    pub fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: the content stays.
        match unsafe { self.advise(offset, bytes, MADV_POPULATE_WRITE) } {
            Err(Errno::EINVAL) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Leave the mapping out of forked children.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_from_children(&self) -> io::Result<()> {
        // SAFETY: the content stays, and a child's access faults.
        Ok(unsafe { self.advise(0, self.bytes(), MADV_DONTFORK) }?)
    }

    /// Clear the first bytes in each forked child.
    pub(crate) fn wipe_in_children(&self, bytes: usize) -> io::Result<()> {
        // SAFETY: the content stays in this process. In a child, the owner of the bytes expects zeros.
        Ok(unsafe { self.advise(0, bytes, MADV_WIPEONFORK) }?)
    }

    /// Release the memory of a file.
    ///
    /// # Safety
    /// No reference leads to the memory, and whoever uses it expects zeros at any time.
    #[cfg(not(loom))]
    pub(crate) unsafe fn discard(&self) {
        // SAFETY: the caller's.
        let _ = unsafe { self.advise(0, self.bytes(), libc::MADV_REMOVE) };
    }

    /// # Safety
    /// Whoever uses the range expects what the advice does to its content.
    unsafe fn advise(&self, offset: usize, bytes: usize, advice: c_int) -> nix::Result<()> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes()), "a range beyond the end");
        if cfg!(miri) {
            return Ok(()); // It has no forks and no pages.
        }
        // SAFETY: the range is inside this mapping, as was just checked. The rest is the caller's promise.
        Errno::result(unsafe { libc::madvise(self.base.add(offset).as_ptr().cast(), bytes, advice) }).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and unmapped only here. Whoever uses the memory keeps this value.
        let _ = unsafe { munmap(self.base.cast(), self.bytes()) };
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_within_is_populated() {
        let mapping = Mapping::private(2 * Mapping::page_size()).unwrap();
        assert!(mapping.populate(0, mapping.bytes()).is_ok());
        for (offset, bytes) in [(0, mapping.bytes() + 1), (mapping.bytes(), 1), (1, usize::MAX)] {
            let beyond = std::panic::catch_unwind(|| mapping.populate(offset, bytes));
            assert!(beyond.is_err(), "{offset}, {bytes}");
        }
        assert!(Mapping::private(0).is_err() && Mapping::private(usize::MAX).is_err());
    }
}
