//! The memory of a token buffer pool, mapped twice: writable for the library, read-only for the program.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_void;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::ftruncate;

/// The memory of a pool. Its drop unmaps it.
#[derive(Debug)]
pub(crate) struct Mapping {
    ours: NonNull<c_void>,
    theirs: NonNull<c_void>,
    bytes: NonZeroUsize,
}

impl Mapping {
    pub(crate) fn new(bytes: NonZeroUsize) -> io::Result<Mapping> {
        let memory = memfd_create(c"dp-pool", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        // A file longer than the limit would raise a signal that kills the program (SIGXFSZ).
        if getrlimit(Resource::RLIMIT_FSIZE)?.0 < bytes.get() as u64 {
            return Err(Errno::EFBIG.into());
        }
        ftruncate(&memory, bytes.get().try_into().map_err(|_| Errno::EFBIG)?)?;
        let map = |access| {
            // SAFETY: the kernel chooses the place, so no other mapping is replaced.
            unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, &memory, 0) }
        };
        let ours = map(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        // Seal it: no later mapping can be writable, and the file cannot be truncated.
        let seals = SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        let mapped = fcntl(&memory, FcntlArg::F_ADD_SEALS(seals)).and_then(|_| map(ProtFlags::PROT_READ));
        match mapped {
            Ok(theirs) => Ok(Mapping { ours, theirs, bytes }),
            Err(error) => {
                // SAFETY: it was mapped above, with this length, and nothing refers to it.
                _ = unsafe { munmap(ours, bytes.get()) };
                Err(error.into())
            }
        }
    }

    /// The address of the program's mapping.
    pub(crate) fn theirs(&self) -> *const u8 {
        self.theirs.as_ptr().cast()
    }
}

impl AsRef<[u8]> for Mapping {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `ours` is mapped with this length until this is dropped. Only this value leads to it, and the program's mapping is
        // read-only: what `&mut self` does not write does not change.
        unsafe { slice::from_raw_parts(self.ours.as_ptr().cast(), self.bytes.get()) }
    }
}

impl AsMut<[u8]> for Mapping {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the program reads the same memory at another address, outside of what Rust knows, and only messages that
        // the pool does not write to meanwhile.
        unsafe { slice::from_raw_parts_mut(self.ours.as_ptr().cast(), self.bytes.get()) }
    }
}

/// The process ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Do not unmap anything from now on: the process ends, and its other threads and exit handlers may still read messages.
pub(crate) fn keep_all() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if IS_ENDING.load(Ordering::Relaxed) {
            return;
        }
        for place in [self.ours, self.theirs] {
            // SAFETY: each was mapped with this length, and goes here only. `theirs` is the program's until it closes the endpoint.
            _ = unsafe { munmap(place, self.bytes.get()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_see_the_same_memory() {
        let mut mapping = Mapping::new(NonZeroUsize::new(8192).unwrap()).unwrap();
        mapping.as_mut()[8000] = 7;
        // SAFETY: it is mapped, and nothing writes to it now.
        assert_eq!(unsafe { *mapping.theirs().add(8000) }, 7);
    }

    #[test]
    fn the_programs_cannot_be_made_writable() {
        let mapping = Mapping::new(NonZeroUsize::new(4096).unwrap()).unwrap();
        // SAFETY: a change of access alone, which the kernel refuses.
        let result =
            unsafe { libc::mprotect(mapping.theirs().cast_mut().cast(), 4096, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!((result, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EACCES)));
    }
}
