//! Memory of a program, registered for what arrives.
#![allow(unsafe_code, reason = "registered memory")]

use am_api::{ForeignMemory, ForeignPart};

pub(crate) struct Landing {
    start: *mut u8,
    length: usize,
    /// `None` once it was taken back.
    memory: Option<ForeignMemory>,
}

impl Landing {
    pub(crate) fn new(length: usize) -> Landing {
        let start = Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr();
        // SAFETY: `drop` frees it after it has taken it back. It is read through `start`, while no node polls.
        let memory = unsafe { ForeignMemory::new(start, length) };
        Landing { start, length, memory: Some(memory) }
    }

    pub(crate) fn part(&self, offset: usize, length: usize) -> ForeignPart {
        let part = self.memory.as_ref().and_then(|memory| memory.part(offset, length));
        part.unwrap_or_else(|| ForeignPart::nowhere(length))
    }

    pub(crate) fn take_back(&mut self) {
        self.memory = None;
    }

    pub(crate) fn all(&self) -> Vec<u8> {
        self.bytes(0, self.length)
    }

    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.length);
        let mut bytes = vec![0; length];
        // SAFETY: it has these bytes, and no copy into them is under way.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.start.add(offset), length) };
        bytes
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.take_back();
        // SAFETY: `new` has leaked it, and nothing has it any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.length)) });
    }
}
