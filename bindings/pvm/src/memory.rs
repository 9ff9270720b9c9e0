//! Memory of PVM's fragments that is used again. PVM takes it from `malloc` for each message, and returns it: where that returns it to the
//! kernel, each message costs a fault and zeros a page. Every block stays one of `malloc`, so either side may free it.

use std::collections::BTreeMap;
use std::ffi::c_void;

use parking_lot::Mutex;

/// What PVM has in front of a fragment's bytes. The last four bytes of it count the references.
pub(crate) const FRONT: usize = 16;

/// `malloc` keeps shorter blocks itself.
const SHORTEST: usize = 2048;

/// The most bytes of free blocks, about what `malloc` keeps of a program with long messages.
const MOST: usize = 32 << 20;

/// Free blocks of `malloc`, by their lengths.
#[derive(Debug)]
struct Free {
    blocks: BTreeMap<usize, Vec<Block>>,
    bytes: usize,
}

#[derive(Debug)]
struct Block(*mut c_void);

// SAFETY: memory that nothing refers to.
unsafe impl Send for Block {}

static FREE: Mutex<Free> = Mutex::new(Free::new());

impl Free {
    const fn new() -> Free {
        Free { blocks: BTreeMap::new(), bytes: 0 }
    }

    /// A block of at least this many bytes, and not much more.
    fn take(&mut self, bytes: usize) -> Option<Block> {
        let (&length, list) = self.blocks.range_mut(bytes..=bytes + bytes / 4).next()?;
        let block = list.pop();
        if list.is_empty() {
            self.blocks.remove(&length);
        }
        self.bytes -= length;
        block
    }

    /// Keep a block of this many bytes. It comes back if there are enough.
    fn keep(&mut self, block: Block, bytes: usize) -> Option<Block> {
        if bytes < SHORTEST || self.bytes + bytes > MOST {
            return Some(block);
        }
        self.bytes += bytes;
        self.blocks.entry(bytes).or_default().push(block);
        None
    }
}

/// The bytes of a new fragment, with one reference. `None` if there is no free block for them.
pub(crate) fn take(length: usize) -> Option<*mut u8> {
    if length < SHORTEST {
        return None;
    }
    let block = FREE.lock().take(length.checked_add(FRONT)?)?.0.cast::<u8>();
    // SAFETY: the block has more bytes than these, and is aligned as every one of `malloc`.
    unsafe {
        let bytes = block.add(FRONT);
        references(bytes).write(1);
        Some(bytes)
    }
}

/// Keep the bytes of a fragment if this is their last reference. Returns whether it was, and they are kept.
///
/// # Safety
/// PVM's `da_new` has returned these bytes, and the caller has a reference.
pub(crate) unsafe fn keep(bytes: *mut u8) -> bool {
    // SAFETY: the caller's promise. They are in a block of `malloc`, behind PVM's front.
    unsafe {
        if references(bytes).read() != 1 {
            return false;
        }
        let block = bytes.sub(FRONT).cast();
        let length = libc::malloc_usable_size(block);
        FREE.lock().keep(Block(block), length).is_none()
    }
}

/// Where PVM counts the references to a fragment's bytes.
///
/// # Safety
/// They are in a block with PVM's front.
pub(crate) unsafe fn references(bytes: *mut u8) -> *mut i32 {
    // SAFETY: the caller's promise.
    unsafe { bytes.sub(size_of::<i32>()).cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: usize) -> Block {
        Block(std::ptr::without_provenance_mut(at))
    }

    #[test]
    fn a_block_serves_what_is_about_as_long() {
        let mut free = Free::new();
        assert!(free.keep(block(1), 5000).is_none() && free.keep(block(2), 8000).is_none());
        assert!(free.take(3999).is_none() && free.take(5001).is_none() && free.take(8001).is_none());
        assert_eq!(free.take(4000).map(|block| block.0.addr()), Some(1));
        assert!(free.take(4000).is_none());
        assert_eq!(free.take(8000).map(|block| block.0.addr()), Some(2));
        assert_eq!((free.bytes, free.blocks.len()), (0, 0));
    }

    #[test]
    fn not_all_is_kept() {
        let mut free = Free::new();
        assert!(free.keep(block(1), SHORTEST - 1).is_some());
        assert!(free.keep(block(1), MOST - SHORTEST).is_none());
        assert!(free.keep(block(2), SHORTEST + 1).is_some() && free.keep(block(3), SHORTEST).is_none());
        assert_eq!(free.bytes, MOST);
    }
}
