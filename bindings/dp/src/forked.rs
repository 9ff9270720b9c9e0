//! Whether this process is the one that opened the node, or was forked from it.
//!
//! The kernel clears a page of ours in every child that gets a copy of the memory. So a child of `clone` or `_Fork`, which run no
//! handlers, is known, too.

use std::io;
use std::num::NonZeroUsize;
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

/// The byte of [`PAGE`], while this process or the one that it was forked from has a node, or is opening it.
static IS_OWNER: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

/// A byte that is 1 in the process that has the node, and 0 in its children. It is mapped once, and stays.
static PAGE: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

/// Its number.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// This process has the node from now on. Under the process's lock.
pub(crate) fn own() -> io::Result<()> {
    let byte = NonNull::new(PAGE.load(Ordering::Relaxed)).map_or_else(map, Ok)?;
    PAGE.store(byte.as_ptr(), Ordering::Relaxed);
    // SAFETY: mapped, and never unmapped.
    unsafe { byte.as_ref() }.store(1, Ordering::Relaxed);
    IS_OWNER.store(byte.as_ptr(), Ordering::Relaxed);
    OWNER.store(process::id(), Ordering::Relaxed);
    Ok(())
}

/// It could not be opened.
pub(crate) fn disown() {
    IS_OWNER.store(std::ptr::null_mut(), Ordering::Relaxed);
}

fn map() -> io::Result<NonNull<AtomicU8>> {
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: the kernel chooses the place, so no other mapping is replaced.
    let page = unsafe { mmap_anonymous(None, NonZeroUsize::MIN, access, flags) }?;
    // SAFETY: the page is ours alone, and nothing is in it yet.
    unsafe { madvise(page, 1, MmapAdvise::MADV_WIPEONFORK) }?;
    Ok(page.cast())
}

/// Whether this process was forked from the one that has the node.
#[inline]
pub(crate) fn is_child() -> bool {
    // SAFETY: null, or a byte that stays mapped, in a child as well.
    let byte = unsafe { IS_OWNER.load(Ordering::Relaxed).as_ref() };
    byte.is_some_and(|byte| byte.load(Ordering::Relaxed) == 0)
}

/// Whether this is a child of `vfork`, which works in the memory of the process that has the node, and has descriptors of its own.
pub(crate) fn is_in_owners_memory() -> bool {
    !is_child() && OWNER.load(Ordering::Relaxed) != process::id()
}
