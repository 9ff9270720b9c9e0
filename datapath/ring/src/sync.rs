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
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// What stands for a piece of memory that loom cannot see, so that a race for
/// the memory is a race for this. Nothing outside loom.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Witness(loom::cell::UnsafeCell<()>);

#[cfg(loom)]
impl Witness {
    pub(crate) fn new() -> Witness {
        Witness(loom::cell::UnsafeCell::new(()))
    }

    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Witness;

#[cfg(not(loom))]
impl Witness {
    pub(crate) fn new() -> Witness {
        Witness
    }

    #[inline(always)]
    pub(crate) fn read(&self) {}

    #[inline(always)]
    pub(crate) fn write(&self) {}
}

/// A cache line of its own, and the next: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

#[cfg(loom)]
pub(crate) use loom::{cell::UnsafeCell, sync::Arc};
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

/// `core`'s, with the face of loom's: access lasts as long as a closure.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
