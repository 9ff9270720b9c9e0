//! Chunks that arriving frames land in, piece by piece.

use std::ptr::NonNull;
use std::slice;

use xsk_rs::{FrameDesc, Umem};

use crate::umem::Memory;

/// The last chunks of the memory: ours, or the kernel's to fill; no frame is ever in them.
pub(crate) struct Landings {
    base: NonNull<u8>,
    chunk: usize,
    /// The number of the first.
    first: usize,
    all: Box<[FrameDesc]>,
    /// Which the kernel has.
    lent: Box<[bool]>,
    /// Which it has not; what it gave back last, and is in the cache, on top.
    home: Vec<u32>,
    /// Keeps them mapped.
    _umem: Umem,
}

impl Landings {
    /// So many chunks from the chunk `first` on, of the memory that starts at `base`.
    pub(crate) fn new(memory: &Memory, base: NonNull<u8>, first: usize, count: usize) -> Landings {
        Landings {
            base,
            chunk: memory.cut.chunk,
            first,
            all: memory.descriptors[first..][..count].into(),
            lent: vec![false; count].into_boxed_slice(),
            home: (0..count as u32).rev().collect(),
            _umem: memory.umem.clone(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// One for the kernel to fill; `None` when it has them all.
    #[inline]
    pub(crate) fn lend(&mut self) -> Option<FrameDesc> {
        let index = self.home.pop()? as usize;
        self.lent[index] = true;
        Some(self.all[index])
    }

    /// The kernel gives one back with this piece in it; `None` for one that it
    /// was never given, which would be a bug of the kernel's.
    #[inline]
    pub(crate) fn landed(&mut self, descriptor: &FrameDesc) -> Option<&[u8]> {
        let (address, length) = (descriptor.addr(), descriptor.lengths().data());
        let index = (address >> self.chunk.ilog2()).checked_sub(self.first)?;
        let lent = self.lent.get_mut(index).filter(|lent| **lent)?;
        if (address & (self.chunk - 1)) + length > self.chunk {
            return None;
        }
        *lent = false;
        self.home.push(index as u32);
        // SAFETY: the bytes are in a chunk of the memory, which stays mapped as
        // long as `_umem`, and was zeroed by the system. No handle of the
        // pool's leads to it. The kernel has just put its address into a ring of
        // ours, its promise to leave it alone, and is given it again by `lend`
        // only, which the borrow keeps away as long as there is the slice.
        Some(unsafe { slice::from_raw_parts(self.base.as_ptr().add(address), length) })
    }
}
