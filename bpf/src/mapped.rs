//! Memory shared with the kernel's program: the elements of an array map.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use am_wire::stamp::Stamps;
use aya::maps::MapData;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::num::NonZeroUsize;

use crate::LoadError;
use crate::object::Object;

/// What may be in such memory.
///
/// # Safety
/// It consists of atomics alone, for which any bytes are valid, whoever writes them. Its alignment is at most that of a page.
pub(crate) unsafe trait Shared: Sync {}

// SAFETY: `Stamps` is `repr(C)` and has atomics in it and nothing else.
unsafe impl<const N: usize> Shared for [Stamps; N] {}

/// All elements of a map, as one value.
pub(crate) struct Mapped<T: Shared> {
    memory: NonNull<T>,
    /// Programs that are loaded later find it by its descriptor.
    _map: MapData,
    owned: PhantomData<T>,
}

// SAFETY: the memory is mapped until the last use (drop takes `self` by value),
// and consists of atomics alone.
unsafe impl<T: Shared> Send for Mapped<T> {}
// SAFETY: as above; everything behind a shared reference is atomic.
unsafe impl<T: Shared> Sync for Mapped<T> {}

impl<T: Shared> Mapped<T> {
    /// Map the elements of a loaded object's map.
    pub(crate) fn of(object: &mut Object, name: &str) -> Result<Mapped<T>, LoadError> {
        let length = const { NonZeroUsize::new(size_of::<T>()).unwrap() };
        let map = object.array(name)?;
        let info = map.info().map_err(|error| LoadError::Object(error.to_string()))?;
        let size = info.value_size() as usize * info.max_entries() as usize;
        if size != length.get() {
            return Err(LoadError::Object(format!("its {name} have {size} bytes, not {length}")));
        }
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours; the kernel refuses a length beyond the map's.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, map.fd().as_fd(), 0) };
        let memory = memory.map_err(|error| LoadError::Object(format!("mapping its {name}: {error}")))?;
        Ok(Mapped { memory: memory.cast(), _map: map, owned: PhantomData })
    }
}

impl<T: Shared> Deref for Mapped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is page-aligned, as long as `T`, lives as long
        // as `self`, and any bytes are valid for atomics, whoever writes them.
        unsafe { self.memory.as_ref() }
    }
}

impl<T: Shared> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&self.memory).finish()
    }
}

impl<T: Shared> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length, and unmapped only here. It
        // can fail only for another address or length, so there is nothing to report.
        let _ = unsafe { munmap(self.memory.cast::<c_void>(), size_of::<T>()) };
    }
}
