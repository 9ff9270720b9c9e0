//! Frames dropped on other threads: a stack to which all threads push, and which the owner takes whole. When the
//! owner is gone, only the number of frames is kept.

use crate::slot::Slot;
use crate::sync::{AtomicU64, Ordering::*};

/// No frame.
pub(crate) const NONE: u32 = u32::MAX;
/// Stands for the first frame: the pool is gone, and frames are only counted.
const ORPHANED: u32 = u32::MAX - 1;

/// First frame of the stack (or a mark) and number of frames, in one word, so
/// that they change together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Stack {
    const EMPTY: Stack = Stack { first: NONE, count: 0 };

    fn pack(self) -> u64 {
        (self.count as u64) << 32 | self.first as u64
    }

    fn unpack(word: u64) -> Stack {
        Stack { first: word as u32, count: (word >> 32) as u32 }
    }
}

/// The shared half of a pool's free frames.
///
/// ```text
///  other threads                      the owner
///
///  use the frame                      take: swap(EMPTY)        (B) Acquire
///  slot.next = first                  first, first.next, …
///  push: compare_exchange(first)      use the frames
///                  (A) Release
/// ```
///
/// A take (B) reads the value that the last push (A) wrote. Every A is a read-modify-write, so that one
/// continues the release sequences of all before it: B synchronizes with each.
/// There is no ABA: frames leave only all together, so a stack whose first
/// frame is still the same is still the same stack.
#[derive(Debug)]
pub(crate) struct Remote(AtomicU64);

impl Remote {
    pub(crate) fn new() -> Remote {
        Remote(AtomicU64::new(Stack::EMPTY.pack()))
    }

    /// How many frames were returned and not taken.
    pub(crate) fn count(&self) -> usize {
        Stack::unpack(self.0.load(Relaxed)).count as usize
    }

    /// Everything that is here. Only for the owner.
    pub(crate) fn take_all(&self) -> Stack {
        // The owner looks here whenever it has no frame left. If there is none, it need not write.
        if Stack::unpack(self.0.load(Relaxed)) == Stack::EMPTY {
            return Stack::EMPTY;
        }
        Stack::unpack(self.0.swap(Stack::EMPTY.pack(), Acquire)) // B
    }

    /// Return a frame. If the pool is orphaned, returns how many frames have been returned, otherwise 0. If that is
    /// not all of them, the pool may be gone on return.
    pub(crate) fn push(&self, index: u32, slot: &Slot) -> usize {
        self.change(|stack| match stack.first {
            ORPHANED => Stack { first: ORPHANED, count: stack.count + 1 },
            first => {
                slot.next.store(first, Relaxed);
                Stack { first: index, count: stack.count + 1 }
            }
        })
    }

    /// The owner goes and leaves `local` free frames. Returns how many frames have been returned, with these.
    pub(crate) fn orphan(&self, local: u32) -> usize {
        self.change(|stack| Stack { first: ORPHANED, count: stack.count + local })
    }

    fn change(&self, mut to: impl FnMut(Stack) -> Stack) -> usize {
        let mut seen = self.0.load(Relaxed);
        loop {
            let new = to(Stack::unpack(seen));
            // Release is A. Acquire: the thread that counts the last frame home frees the memory, after everything that
            // others did with theirs.
            match self.0.compare_exchange_weak(seen, new.pack(), AcqRel, Relaxed) {
                Ok(_) if new.first == ORPHANED => return new.count as usize,
                Ok(_) => return 0,
                Err(now) => seen = now,
            }
        }
    }
}
