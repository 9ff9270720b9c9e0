//! The atomics and cells of this crate: the real ones, or loom's, which try
//! every interleaving that the memory model allows.

#[cfg(not(loom))]
pub(crate) use core::{
    cell::Cell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use loom::{
    cell::Cell,
    sync::Arc,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

/// What stands for a piece of memory that loom cannot see, so that a race for
/// the memory is a race for this. Nothing outside loom.
#[derive(Debug, Default)]
pub(crate) struct Witness(#[cfg(loom)] loom::cell::UnsafeCell<()>);

impl Witness {
    #[inline(always)]
    pub(crate) fn read(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }

    #[inline(always)]
    pub(crate) fn write(&self) {
        #[cfg(loom)]
        self.0.with_mut(|_| ());
    }
}

/// A cache line of its own, and the next: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);
