//! Memory of another owner, such as a C program, into which a node copies what arrives.
//!
//! ```text
//!   ForeignMemory::new, unsafe, once ─▶ part ─▶ ForeignPart ─▶ the node ─▶ fill
//!   drop: taken back ──────────────────────────────────────────────────▶ None
//! ```
//!
//! Nobody has a reference to this memory, except `fill` while it copies.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::{ptr, slice};

/// Memory that is registered for as long as this exists. Dropping it takes the memory back: what arrives for it later is not copied.
#[derive(Debug)]
pub struct ForeignMemory {
    start: *mut u8,
    length: usize,
    /// Whether a part of it is being filled.
    in_use: Rc<Cell<bool>>,
}

/// A part of a [`ForeignMemory`].
#[derive(Clone, Debug)]
pub struct ForeignPart {
    start: *mut u8,
    length: usize,
    in_use: Weak<Cell<bool>>,
}

impl ForeignMemory {
    /// Register `length` bytes from `start` on.
    ///
    /// # Safety
    /// Until this is dropped, and no [`fill`](ForeignPart::fill) of a part of it runs, each part that is filled is memory of this process that
    /// may be read and written. While it is filled, nothing else reads or writes it: no other thread, no reference, and no part of other
    /// registered memory. A part that is never filled need not be memory.
    pub unsafe fn new(start: *mut u8, length: usize) -> ForeignMemory {
        ForeignMemory { start, length, in_use: Rc::default() }
    }

    /// The start of it.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Its length.
    pub fn length(&self) -> usize {
        self.length
    }

    /// These bytes of it, if it has all of them.
    pub fn part(&self, offset: usize, length: usize) -> Option<ForeignPart> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        let (start, in_use) = (self.start.wrapping_add(offset), Rc::downgrade(&self.in_use));
        // No byte is at the address 0.
        (is_inside && (length == 0 || !start.is_null())).then_some(ForeignPart { start, length, in_use })
    }
}

impl ForeignPart {
    /// A part of no memory: what is copied there is dropped.
    pub fn nowhere(length: usize) -> ForeignPart {
        ForeignPart { start: ptr::null_mut(), length, in_use: Weak::new() }
    }

    /// The start of it.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Its length.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether its memory is still registered.
    pub fn is_registered(&self) -> bool {
        self.in_use.strong_count() > 0
    }

    /// Let `fill` write these bytes of it. `None` if its memory was taken back, is being filled, or does not have all of them.
    pub fn fill<R>(&self, offset: usize, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let in_use = self.in_use.upgrade()?;
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if !is_inside || in_use.replace(true) {
            return None;
        }
        let filled = match length {
            0 => fill(&mut []),
            // SAFETY: `part` has seen that the memory has these bytes, and that none is at 0. By the promise of `ForeignMemory::new` they are
            // memory, and only `fill` touches them until it returns: `in_use` keeps other parts of the same memory out.
            length => fill(unsafe { slice::from_raw_parts_mut(self.start.wrapping_add(offset), length) }),
        };
        in_use.set(false);
        Some(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registered_memory_is_written_and_only_inside() {
        let mut bytes = [0u8; 8];
        let start = bytes.as_mut_ptr();
        // SAFETY: the bytes outlive it, and are read through `start` only, while nothing fills them.
        let memory = unsafe { ForeignMemory::new(start, bytes.len()) };
        assert!(memory.part(4, 5).is_none() && memory.part(usize::MAX, 2).is_none());
        let part = memory.part(2, 4).unwrap();
        assert_eq!(part.fill(1, 2, |place| place.copy_from_slice(&[7, 8])), Some(()));
        assert_eq!(part.fill(3, 2, |_| ()), None, "beyond its end");
        assert_eq!(part.fill(usize::MAX, 2, |_| ()), None);
        assert_eq!(part.fill(4, 0, |place| place.len()), Some(0));
        let again = part.clone();
        assert_eq!(part.fill(0, 4, |_| again.fill(0, 1, |_| ())), Some(None), "it is being filled");
        assert!(again.fill(0, 1, |_| ()).is_some() && part.is_registered());
        drop(memory);
        assert_eq!((part.fill(0, 1, |place| place[0] = 9), part.is_registered()), (None, false));
        // SAFETY: they live, and nothing fills them any more.
        assert_eq!(unsafe { start.cast::<[u8; 8]>().read() }, [0, 0, 0, 7, 8, 0, 0, 0]);
    }

    #[test]
    fn nothing_is_at_the_address_0() {
        // SAFETY: no part of it is filled.
        let all = unsafe { ForeignMemory::new(ptr::null_mut(), usize::MAX) };
        assert!(all.part(0, 1).is_none() && all.part(0, 0).is_some());
        assert!(all.part(usize::MAX, 1).is_none() && all.part(4096, 8).is_some());
        let nowhere = ForeignPart::nowhere(3);
        assert_eq!((nowhere.fill(0, 3, |_| ()), nowhere.length()), (None, 3));
    }
}
