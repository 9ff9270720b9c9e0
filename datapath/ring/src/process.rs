//! Whether this process made something, or was forked from the process that did.
//!
//! The kernel clears one page of ours in every child that gets a copy of the memory (`MADV_WIPEONFORK`). So a child of `clone` or
//! `_Fork`, which run no handlers, is known, too. A child of `vfork` works in the memory of its parent, and counts as its parent.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use crate::wiped::WipedPage;

/// What the page has. Zeros in a process that was just forked.
#[derive(Debug, Default)]
#[repr(C)]
struct Process {
    /// The number of this process: it differs from those of all processes that this one was forked from.
    number: AtomicU64,
    /// The owners of this process.
    owners: AtomicUsize,
}

/// The page, once this process or one that it was forked from had an owner. It is mapped once, and stays.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The last number that was given on the way from the first process to this one.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);
/// The last process on that way that has owners; 0 if it has none any more.
static OWNING: AtomicU64 = AtomicU64::new(0);

fn process() -> Option<&'static Process> {
    // SAFETY: null, or a page that stays mapped, in a child as well, and was zeroed by the kernel.
    unsafe { PROCESS.load(Acquire).as_ref() }
}

fn map() -> io::Result<&'static Process> {
    if let Some(process) = process() {
        return Ok(process);
    }
    // No lock: a child inherits a lock that another thread has.
    let page = ManuallyDrop::new(WipedPage::new(0)?);
    let fresh = page.end().as_ptr().wrapping_sub(WipedPage::ROOM).cast::<Process>();
    if PROCESS.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
        // Another thread was first.
        drop(ManuallyDrop::into_inner(page));
    }
    process().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// The right to what one process has made: a node, a transport. A forked child has a copy, which knows that it is one.
#[derive(Debug)]
#[must_use]
pub struct Owner(u64);

impl Owner {
    /// The calling process owns something from now on. Call this before it is made: a child may be forked meanwhile.
    ///
    /// # Errors
    /// There is no memory for a page.
    pub fn new() -> io::Result<Owner> {
        let process = map()?;
        let mut number = process.number.load(Acquire);
        if number == 0 {
            let next = LAST_NUMBER.fetch_add(1, Relaxed) + 1;
            number = process.number.compare_exchange(0, next, AcqRel, Acquire).map_or_else(|first| first, |_| next);
        }
        process.owners.fetch_add(1, SeqCst);
        OWNING.store(number, SeqCst);
        Ok(Owner(number))
    }

    /// Whether the calling process is the owner. A process that was forked from it is not.
    #[inline]
    pub fn is_here(&self) -> bool {
        process().is_some_and(|process| process.number.load(Relaxed) == self.0)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The child's copy says nothing about what the parent has.
        let Some(process) = process().filter(|_| self.is_here()) else { return };
        if process.owners.fetch_sub(1, SeqCst) == 1 {
            OWNING.store(0, SeqCst);
            // Another thread may have made something meanwhile.
            if process.owners.load(SeqCst) != 0 {
                OWNING.store(self.0, SeqCst);
            }
        }
    }
}

/// Whether this process was forked from one that was an [`Owner`] then, and is none itself.
#[inline]
pub fn is_forked_child() -> bool {
    let owning = OWNING.load(Relaxed);
    owning != 0 && process().is_some_and(|process| process.number.load(Relaxed) != owning)
}

/// A value of the process that made it. In a forked child it is not dropped, because its end would be that of the parent's: it
/// would send, unlock or detach what the two share.
#[repr(C)]
pub struct Owned<T> {
    value: ManuallyDrop<T>,
    owner: Owner,
}

impl<T> Owned<T> {
    /// A value of the calling process.
    pub fn new(owner: Owner, value: T) -> Owned<T> {
        Owned { value: ManuallyDrop::new(value), owner }
    }

    /// Whether the calling process is its owner.
    pub fn is_here(this: &Owned<T>) -> bool {
        this.owner.is_here()
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Owned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // SAFETY: it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
