//! Memory that others may write at any time.

use core::fmt;

use crate::sync::AtomicU32;

/// Memory that other processes may write whenever they like. There is no reference to its bytes: words are atomic, and
/// bytes are copied in and out. An offset beyond its end is a bug of this program, never a matter of what is in it.
#[derive(Clone)]
pub struct Shared(imp::Memory);

impl Shared {
    /// Zeroed memory of this process's own, for tests and threads.
    ///
    /// # Panics
    /// There is not so much memory.
    pub fn heap(bytes: usize) -> Shared {
        Shared(imp::Memory::heap(bytes.next_multiple_of(super::shape::LINE)))
    }

    /// A part of it.
    ///
    /// # Panics
    /// It ends behind the end of the whole, or is not made of whole lines.
    pub fn part(&self, offset: usize, bytes: usize) -> Shared {
        let line = super::shape::LINE;
        assert!(offset.is_multiple_of(line) && bytes.is_multiple_of(line), "a part is made of whole lines");
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.0.len()), "a part beyond the end");
        Shared(self.0.part(offset, bytes))
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// It is not all within, or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.0.len(), "no word at {offset}");
        self.0.word(offset)
    }

    /// Copy in, at a multiple of 4. What is behind the bytes, up to a multiple of 8, may be overwritten with zeros.
    #[inline]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        self.0.write(offset, bytes);
    }

    /// Copy out, from a multiple of 4.
    #[inline]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        self.0.read(offset, bytes);
    }

    /// Tell the processor that this line will be written soon, so that a later store need not wait for it.
    #[inline]
    pub(crate) fn will_write(&self, offset: usize) {
        self.0.will_write(offset);
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) {
        // All lengths are of whole lines, so that rounding up to 8 stays within.
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
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
    use std::sync::Arc;

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
        fn long(&self, offset: usize) -> &AtomicU64 {
            // SAFETY: as in `word`; offsets here are multiples of 8, and so is the length of the memory.
            unsafe { self.base.add(offset).cast().as_ref() }
        }

        #[inline]
        pub(super) fn write(&self, mut at: usize, mut bytes: &[u8]) {
            if bytes.len() >= super::super::copy::FEWEST {
                // SAFETY: `Shared` has checked the range.
                return unsafe { super::super::copy::copy(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
            }
            if at % 8 == 4 {
                let head = bytes.len().min(4);
                self.word(at).store(padded(&bytes[..head]) as u32, Relaxed);
                (at, bytes) = (at + 4, &bytes[head..]);
            }
            let (whole, rest) = bytes.as_chunks::<8>();
            for chunk in whole {
                self.long(at).store(u64::from_le_bytes(*chunk), Relaxed);
                at += 8;
            }
            if !rest.is_empty() {
                self.long(at).store(padded(rest), Relaxed);
            }
        }

        #[inline]
        pub(super) fn read(&self, mut at: usize, mut bytes: &mut [u8]) {
            if bytes.len() >= super::super::copy::FEWEST {
                // SAFETY: `Shared` has checked the range.
                return unsafe {
                    super::super::copy::copy(self.base.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len())
                };
            }
            if at % 8 == 4 {
                let (head, rest) = bytes.split_at_mut(bytes.len().min(4));
                let word = self.word(at).load(Relaxed).to_le_bytes();
                head.copy_from_slice(&word[..head.len()]);
                (at, bytes) = (at + 4, rest);
            }
            let (whole, rest) = bytes.as_chunks_mut::<8>();
            for chunk in whole {
                *chunk = self.long(at).load(Relaxed).to_le_bytes();
                at += 8;
            }
            if !rest.is_empty() {
                let word = self.long(at).load(Relaxed).to_le_bytes();
                rest.copy_from_slice(&word[..rest.len()]);
            }
        }

        #[inline]
        pub(super) fn will_write(&self, offset: usize) {
            super::super::copy::will_write(self.base.as_ptr().wrapping_add(offset));
        }
    }

    /// Up to eight bytes as a number that is stored.
    #[inline]
    fn padded(bytes: &[u8]) -> u64 {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    }
}

/// Words that the model checker knows.
#[cfg(loom)]
mod imp {
    use std::sync::Arc;

    use crate::sync::{AtomicU32, Ordering::Relaxed};

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

        pub(super) fn write(&self, at: usize, bytes: &[u8]) {
            for (nth, chunk) in bytes.chunks(4).enumerate() {
                let mut word = [0; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                self.word(at + nth * 4).store(u32::from_le_bytes(word), Relaxed);
            }
        }

        pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
            for (nth, chunk) in bytes.chunks_mut(4).enumerate() {
                let word = self.word(at + nth * 4).load(Relaxed).to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
        }

        pub(super) fn will_write(&self, _offset: usize) {}
    }
}
