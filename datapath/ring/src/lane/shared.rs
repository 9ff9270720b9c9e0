//! Memory that others may write at any time.

use core::fmt;
use core::ptr::NonNull;
use std::sync::Arc;

use super::copy::{self, FEWEST};
use super::shape::{LINE, ONE_LINE, WORD};
#[cfg(not(loom))]
use crate::Mapping;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The bytes of a record of one line that are copied. The model checker tries an old and a new value for each word that races, so of the 15
/// words it gets two.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
const MODELLED: usize = if cfg!(loom) { 8 } else { ONE_LINE };

/// Memory that other processes may write at any time. There is no reference to its bytes: words are atomic, and bytes
/// are copied in and out. An offset beyond its end is a bug of this program, whatever the memory contains.
#[derive(Clone)]
pub struct Shared {
    #[cfg(not(loom))]
    base: NonNull<u8>,
    #[cfg(not(loom))]
    mapping: Arc<Mapping>,
    /// The model checker knows words only: those of the whole, and the offset of this part.
    #[cfg(loom)]
    words: Arc<Vec<AtomicU32>>,
    #[cfg(loom)]
    from: usize,
    len: usize,
}

// SAFETY: all access is atomic, or by instructions that may race; and the memory lives as long as its mapping.
#[cfg(not(loom))]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Shared {}

#[cfg(not(loom))]
impl Shared {
    /// Zeroed memory of this process, for tests and threads: at least a line.
    ///
    /// # Panics
    /// There is not enough memory.
    pub fn heap(bytes: usize) -> Shared {
        let len = bytes.max(1).checked_next_multiple_of(LINE).expect("less than the address space");
        Shared::of(Arc::new(Mapping::private(len).expect("memory for a test")))
    }

    /// The memory of a mapping.
    ///
    /// # Panics
    /// It does not consist of whole lines.
    pub fn of(mapping: Arc<Mapping>) -> Shared {
        // It starts at a page.
        assert!(mapping.bytes().is_multiple_of(LINE), "a mapping of whole lines");
        Shared { base: mapping.base(), len: mapping.bytes(), mapping }
    }

    /// Release the memory of the whole mapping to the system, if it is a file's, even if other processes keep it mapped. All bytes are zero
    /// then. If the kernel cannot do this, the memory is released with the last mapping.
    pub fn discard(&self) {
        // SAFETY: all access is as if others wrote at any time.
        unsafe { self.mapping.discard() };
    }

    fn part_of(&self, offset: usize, len: usize) -> Shared {
        Shared { base: self.at(offset), len, mapping: self.mapping.clone() }
    }

    /// The byte at an offset that was checked.
    #[inline]
    fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the offset is within, or at the end.
        unsafe { self.base.add(offset) }
    }

    /// The word at an offset that was checked, or computed from a checked range.
    #[inline]
    fn word_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: aligned and within; all access is atomic.
        unsafe { self.at(offset).cast().as_ref() }
    }
}

#[cfg(loom)]
#[allow(missing_docs, reason = "as without the model checker")]
impl Shared {
    pub fn heap(bytes: usize) -> Shared {
        let len = bytes.max(1).next_multiple_of(LINE);
        Shared { words: Arc::new((0..len / 4).map(|_| AtomicU32::new(0)).collect()), from: 0, len }
    }

    fn part_of(&self, offset: usize, len: usize) -> Shared {
        Shared { words: self.words.clone(), from: self.from + offset, len }
    }

    fn at(&self, _offset: usize) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn word_at(&self, offset: usize) -> &AtomicU32 {
        &self.words[(self.from + offset) / 4]
    }
}

impl Shared {
    /// A part of it.
    ///
    /// # Panics
    /// It ends behind the end of the whole, or does not consist of whole lines.
    pub fn part(&self, offset: usize, bytes: usize) -> Shared {
        assert!(offset.is_multiple_of(LINE) && bytes.is_multiple_of(LINE), "a part is made of whole lines");
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.len), "a part beyond the end");
        self.part_of(offset, bytes)
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// The range is not within, or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.len, "no word at {offset}");
        self.word_at(offset)
    }

    /// The word at an offset that is known to be within.
    ///
    /// # Safety
    /// It is within, and a multiple of 4.
    #[inline]
    pub(crate) unsafe fn word_within(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset < self.len);
        self.word_at(offset)
    }

    /// Copy in, at a multiple of 4. Bytes behind the range, up to the next multiple, may be overwritten with zeros.
    #[inline]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if bytes.len() >= FEWEST {
            // SAFETY: the range and the length were checked.
            return unsafe { copy::copy(bytes.as_ptr(), self.at(offset).as_ptr(), bytes.len()) };
        }
        for (nth, chunk) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word_at(offset + nth * 4).store(u32::from_ne_bytes(word), Relaxed);
        }
    }

    /// Copy out, from a multiple of 4.
    #[inline]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        if bytes.len() >= FEWEST {
            // SAFETY: the range and the length were checked.
            return unsafe { copy::copy(self.at(offset).as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        }
        for (nth, chunk) in bytes.chunks_mut(4).enumerate() {
            // Words as everywhere else: atomics of two sizes must not be mixed.
            let word = self.word_at(offset + nth * 4).load(Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Copy the bytes of a record in that fills the line at this offset.
    ///
    /// # Safety
    /// The line is within.
    #[inline(always)]
    pub(crate) unsafe fn write_line(&self, offset: usize, bytes: &[u8; ONE_LINE]) {
        debug_assert!(offset.is_multiple_of(LINE) && offset < self.len);
        // SAFETY: the caller's.
        #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
        unsafe {
            copy::copy_line::<0, WORD>(bytes.as_ptr(), self.at(offset).as_ptr());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
        self.write(offset + WORD, &bytes[..MODELLED]);
    }

    /// Copy the bytes of a record out that fills the line at this offset.
    ///
    /// # Safety
    /// The line is within.
    #[inline(always)]
    pub(crate) unsafe fn read_line(&self, offset: usize, bytes: &mut [u8; ONE_LINE]) {
        debug_assert!(offset.is_multiple_of(LINE) && offset < self.len);
        // SAFETY: the caller's.
        #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
        unsafe {
            copy::copy_line::<WORD, 0>(self.at(offset).as_ptr(), bytes.as_mut_ptr());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
        self.read(offset + WORD, &mut bytes[..MODELLED]);
    }

    /// Copy to other shared memory, from a multiple of 4 to one. Bytes there behind the range, up to the next multiple, may be overwritten.
    #[inline]
    pub(crate) fn copy_to(&self, offset: usize, len: usize, to: &Shared, at: usize) {
        self.check(offset, len);
        to.check(at, len);
        if len >= FEWEST {
            // SAFETY: both ranges and the length were checked. They are of two lanes.
            return unsafe { copy::copy(self.at(offset).as_ptr(), to.at(at).as_ptr(), len) };
        }
        for word in (0..len).step_by(4) {
            to.word_at(at + word).store(self.word_at(offset + word).load(Relaxed), Relaxed);
        }
    }

    /// Hint that this line and the next will be written soon, so that a later store need not wait for it.
    #[inline]
    pub(crate) fn will_write(&self, offset: usize) {
        copy::will_write(self.at(0).as_ptr().wrapping_add(offset));
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) {
        // All memory is of whole lines, so that rounding up to 4 stays within.
        assert!(offset.is_multiple_of(4) && len <= self.len && offset <= self.len - len, "beyond the end");
    }
}

/// One word of shared memory. Its place was checked once.
#[derive(Clone)]
pub struct SharedWord {
    #[cfg(not(loom))]
    word: NonNull<AtomicU32>,
    #[cfg(not(loom))]
    _mapping: Arc<Mapping>,
    #[cfg(loom)]
    memory: Shared,
    #[cfg(loom)]
    offset: usize,
}

// SAFETY: it is a reference to an atomic word, and to the memory.
#[cfg(not(loom))]
unsafe impl Send for SharedWord {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for SharedWord {}

impl SharedWord {
    /// The word at an offset.
    ///
    /// # Panics
    /// The range is not within, or not aligned.
    #[cfg(not(loom))]
    pub fn new(memory: &Shared, offset: usize) -> SharedWord {
        SharedWord { word: NonNull::from(memory.word(offset)), _mapping: memory.mapping.clone() }
    }

    #[cfg(loom)]
    #[allow(missing_docs, reason = "as without the model checker")]
    pub fn new(memory: &Shared, offset: usize) -> SharedWord {
        SharedWord { memory: memory.clone(), offset }
    }
}

impl core::ops::Deref for SharedWord {
    type Target = AtomicU32;

    #[cfg(not(loom))]
    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        // SAFETY: the memory lives as long as this.
        unsafe { self.word.as_ref() }
    }

    #[cfg(loom)]
    fn deref(&self) -> &AtomicU32 {
        self.memory.word(self.offset)
    }
}

impl fmt::Debug for SharedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedWord").field(&**self).finish()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("bytes", &self.len).finish_non_exhaustive()
    }
}
