//! Whether this process is the one that opened a node, or was forked from it. Each binding includes this file.
//!
//! The kernel clears a page of ours in every child that gets a copy of the memory. So a child of `clone` or `_Fork`, which run no
//! handlers, is known, too.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

/// The byte of the page, while this process or the one that it was forked from has a node, or is opening it.
static IS_OWNER: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

struct Owned {
    /// A byte that is 1 in the process that has the nodes, and 0 in its children. It is mapped once, and stays.
    byte: Option<&'static AtomicU8>,
    /// How many nodes the process has.
    nodes: usize,
}

static OWNED: Mutex<Owned> = Mutex::new(Owned { byte: None, nodes: 0 });

/// This process has a node, as long as this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Owner(());

impl Owner {
    /// To be called before the node opens: a child may be forked meanwhile. A child of a process with a node must not call it.
    pub(crate) fn new() -> io::Result<Owner> {
        let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
        let byte = match owned.byte {
            Some(byte) => byte,
            None => map()?,
        };
        owned.byte = Some(byte);
        owned.nodes += 1;
        byte.store(1, Ordering::Relaxed);
        IS_OWNER.store(std::ptr::from_ref(byte).cast_mut(), Ordering::Relaxed);
        Ok(Owner(()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The child's copy says nothing of the parent's nodes. The lock may be taken there for ever.
        if is_child() {
            return;
        }
        let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
        owned.nodes -= 1;
        if owned.nodes == 0 {
            // A child that is forked now may open a node of its own.
            IS_OWNER.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

fn map() -> io::Result<&'static AtomicU8> {
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: the kernel chooses the place, so no other mapping is replaced.
    let page = unsafe { mmap_anonymous(None, NonZeroUsize::MIN, access, flags) }?;
    // SAFETY: the page is ours alone, and nothing is in it yet.
    unsafe { madvise(page, 1, MmapAdvise::MADV_WIPEONFORK) }?;
    let byte: NonNull<AtomicU8> = page.cast();
    // SAFETY: mapped, and never unmapped. The kernel has filled it with zeros.
    Ok(unsafe { byte.as_ref() })
}

/// Whether this process was forked from one that had a node then.
#[inline]
pub(crate) fn is_child() -> bool {
    // SAFETY: null, or a byte that stays mapped, in a child as well.
    let byte = unsafe { IS_OWNER.load(Ordering::Relaxed).as_ref() };
    byte.is_some_and(|byte| byte.load(Ordering::Relaxed) == 0)
}
