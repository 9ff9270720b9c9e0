//! Heap memory for a pool.

use core::ptr::NonNull;
use std::alloc::{Layout as Bytes, alloc_zeroed, dealloc};

use crate::layout::{Layout, LayoutError};

/// If the stride is a multiple of this, each frame starts on its own cache line.
const ALIGN: usize = 128;

/// Zeroed memory for a layout; freed when dropped.
#[derive(Debug)]
pub(crate) struct Heap {
    base: NonNull<u8>,
    bytes: Bytes,
}

// SAFETY: it is nothing but the right to free the memory, which any thread may do.
unsafe impl Send for Heap {}

impl Heap {
    /// Memory for a layout that has been checked.
    pub(crate) fn new(layout: &Layout) -> Result<Heap, LayoutError> {
        let none = LayoutError::Memory { frames: layout.frames, stride: layout.stride };
        let bytes = Bytes::from_size_align(layout.bytes(), ALIGN).map_err(|_| none)?;
        // SAFETY: the size is not 0, because a checked layout has at least one frame of at least one byte.
        let base = unsafe { alloc_zeroed(bytes) };
        Ok(Heap { base: NonNull::new(base).ok_or(none)?, bytes })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this very layout, and is freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.bytes) }
    }
}
