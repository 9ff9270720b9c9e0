//! Memory that others may write at any time.

use core::fmt;

#[cfg(not(loom))]
use super::copy::FEWEST;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The model checker knows words only.
#[cfg(loom)]
const FEWEST: usize = usize::MAX;

/// Memory that other processes may write at any time. There is no reference to its bytes: words are atomic, and bytes
/// are copied in and out. An offset beyond its end is a bug of this program, whatever the memory contains.
#[derive(Clone)]
pub struct Shared(imp::Memory);

impl Shared {
    /// Zeroed memory of this process, for tests and threads.
    ///
    /// # Panics
    /// There is not enough memory.
    pub fn heap(bytes: usize) -> Shared {
        Shared(imp::Memory::heap(bytes.next_multiple_of(super::shape::LINE)))
    }

    /// A part of it.
    ///
    /// # Panics
    /// It ends behind the end of the whole, or does not consist of whole lines.
    pub fn part(&self, offset: usize, bytes: usize) -> Shared {
        let line = super::shape::LINE;
        assert!(offset.is_multiple_of(line) && bytes.is_multiple_of(line), "a part is made of whole lines");
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.0.len()), "a part beyond the end");
        Shared(self.0.part(offset, bytes))
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// The range is not within, or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.0.len(), "no word at {offset}");
        self.0.word(offset)
    }

    /// Copy in, at a multiple of 4. Bytes behind the range, up to the next multiple, may be overwritten with zeros.
    #[inline]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if bytes.len() >= FEWEST {
            return self.0.write(offset, bytes);
        }
        for (nth, chunk) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0.word(offset + nth * 4).store(u32::from_ne_bytes(word), Relaxed);
        }
    }

    /// Copy out, from a multiple of 4.
    #[inline]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        if bytes.len() >= FEWEST {
            return self.0.read(offset, bytes);
        }
        for (nth, chunk) in bytes.chunks_mut(4).enumerate() {
            // Words as everywhere else: atomics of two sizes must not be mixed.
            let word = self.0.word(offset + nth * 4).load(Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Hint that this line will be written soon, so that a later store need not wait for it.
    #[inline]
    pub(crate) fn will_write(&self, offset: usize) {
        self.0.will_write(offset);
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) {
        // All memory is of whole lines, so that rounding up to 4 stays within.
        assert!(offset.is_multiple_of(4) && len <= self.0.len() && offset <= self.0.len() - len, "beyond the end");
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("bytes", &self.0.len()).finish()
    }
}

#[cfg(not(loom))]
mod imp {
    use core::any::Any;
    use core::ptr::NonNull;
    use core::sync::atomic::AtomicU32;
    use std::sync::Arc;

    use super::super::copy;
    use super::super::shape::LINE;
    use crate::heap::Heap;
    use crate::layout::Layout;

    #[derive(Clone)]
    pub(super) struct Memory {
        base: NonNull<u8>,
        len: usize,
        keep: Arc<dyn Any + Send + Sync>,
    }

    // SAFETY: all access is atomic, or by instructions that may race; and the memory lives as long as `keep`.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    struct Kept {
        _heap: std::sync::Mutex<Heap>,
    }

    impl super::Shared {
        /// Memory that is mapped already. `keep` is dropped when nothing uses it any more.
        ///
        /// # Safety
        /// `base` is the start of `len` bytes, on a line of the cache and a multiple of it long, that stay mapped,
        /// readable and writable until `keep` is dropped. In this process they are accessed through [`Shared`] only.
        ///
        /// [`Shared`]: super::Shared
        pub unsafe fn over(base: NonNull<u8>, len: usize, keep: Arc<dyn Any + Send + Sync>) -> super::Shared {
            debug_assert!(base.as_ptr().addr().is_multiple_of(LINE) && len.is_multiple_of(LINE));
            super::Shared(Memory { base, len, keep })
        }
    }

    impl Memory {
        pub(super) fn heap(len: usize) -> Memory {
            let heap = Heap::new(&Layout { frames: 1, stride: len, headroom: 0 }).expect("memory for a test");
            Memory { base: heap.base(), len, keep: Arc::new(Kept { _heap: heap.into() }) }
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn part(&self, offset: usize, len: usize) -> Memory {
            // SAFETY: `Shared::part` has seen that it is within.
            Memory { base: unsafe { self.base.add(offset) }, len, keep: self.keep.clone() }
        }

        #[inline]
        pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
            // SAFETY: aligned and within, as `Shared` has checked or computed from a checked range; all access is atomic.
            unsafe { self.base.add(offset).cast().as_ref() }
        }

        #[inline]
        pub(super) fn write(&self, at: usize, bytes: &[u8]) {
            // SAFETY: `Shared` has checked the range, and the length.
            unsafe { copy::copy(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) }
        }

        #[inline]
        pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
            // SAFETY: `Shared` has checked the range, and the length.
            unsafe { copy::copy(self.base.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len()) }
        }

        #[inline]
        pub(super) fn will_write(&self, offset: usize) {
            copy::will_write(self.base.as_ptr().wrapping_add(offset));
        }
    }
}

/// Words that the model checker knows.
#[cfg(loom)]
mod imp {
    use std::sync::Arc;

    use crate::sync::AtomicU32;

    #[derive(Clone)]
    pub(super) struct Memory {
        words: Arc<[AtomicU32]>,
        from: usize,
        len: usize,
    }

    impl Memory {
        pub(super) fn heap(len: usize) -> Memory {
            Memory { words: (0..len / 4).map(|_| AtomicU32::new(0)).collect(), from: 0, len }
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn part(&self, offset: usize, len: usize) -> Memory {
            Memory { words: self.words.clone(), from: self.from + offset, len }
        }

        pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
            &self.words[(self.from + offset) / 4]
        }

        pub(super) fn write(&self, _at: usize, _bytes: &[u8]) {
            unreachable!("words are what it can see");
        }

        pub(super) fn read(&self, _at: usize, _bytes: &mut [u8]) {
            unreachable!("words are what it can see");
        }

        pub(super) fn will_write(&self, _offset: usize) {}
    }
}
