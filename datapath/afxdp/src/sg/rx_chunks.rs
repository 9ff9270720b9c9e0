//! Chunks into which the kernel receives long frames, piece by piece.

use std::ptr::NonNull;
use std::slice;

use xsk_rs::{FrameDesc, Umem};

use crate::umem::Memory;

/// The last chunks of the memory. The kernel fills them; no frame of the pool is ever in them.
pub(crate) struct RxChunks {
    base: NonNull<u8>,
    chunk: usize,
    /// The index of the first.
    first: usize,
    all: Box<[FrameDesc]>,
    /// Whether the kernel holds each chunk.
    is_lent: Box<[bool]>,
    /// The others. The last returned is on top, because it is in the cache.
    available: Vec<u32>,
    /// Keeps the memory mapped.
    _umem: Umem,
}

impl RxChunks {
    /// The `count` chunks from `first` on, of the memory that starts at `base`.
    pub(crate) fn new(memory: &Memory, base: NonNull<u8>, first: usize, count: usize) -> RxChunks {
        RxChunks {
            base,
            chunk: memory.layout.chunk,
            first,
            all: memory.descriptors[first..][..count].into(),
            is_lent: vec![false; count].into_boxed_slice(),
            available: (0..count as u32).rev().collect(),
            _umem: memory.umem.clone(),
        }
    }

    /// The number of chunks.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Give a chunk to the kernel to fill; `None` when it holds all of them.
    #[inline]
    pub(crate) fn lend(&mut self) -> Option<FrameDesc> {
        let index = self.available.pop()? as usize;
        self.is_lent[index] = true;
        Some(self.all[index])
    }

    /// Take a chunk from the kernel, with a received piece in it. `None` for a chunk that the kernel did not hold,
    /// which would be a bug of the kernel.
    #[inline]
    pub(crate) fn take_received(&mut self, descriptor: &FrameDesc) -> Option<&[u8]> {
        let (address, length) = (descriptor.addr(), descriptor.lengths().data());
        let index = (address >> self.chunk.ilog2()).checked_sub(self.first)?;
        let lent = self.is_lent.get_mut(index).filter(|lent| **lent)?;
        if (address & (self.chunk - 1)) + length > self.chunk {
            return None;
        }
        *lent = false;
        self.available.push(index as u32);
        // SAFETY: the bytes are in a chunk of the memory, which the system has zeroed, and which `_umem` keeps mapped.
        // No handle of the pool leads to it. By putting its address into one of our rings the kernel has given up its
        // access. Only `lend` gives the chunk to the kernel again, and the borrow prevents that while the slice lives.
        Some(unsafe { slice::from_raw_parts(self.base.as_ptr().add(address), length) })
    }
}
