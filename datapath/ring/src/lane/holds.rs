//! Who still reads the lanes of whom.
//!
//! A lane outlives its sender: a process that has ended leaves its last frames in it. So its memory goes to another sender only when the
//! receiver has read them. The receiver says that it reads the lane, and says later that it has read it to its end:
//!
//! ```text
//!   the sender that ends      the receiver                              the next sender
//!
//!   publish                   keep        reads this lane
//!   end            ─────────▶ peek, take  until there is nothing
//!                             release     (L) ──────────────────────▶ (M) is_kept: no
//!                                                                       offer
//! ```
//!
//! Each receiver writes words of its own. A word says nothing once its receiver has died, so the caller asks for living ones only.

use super::Shared;
use super::shape::LINE;
use crate::sync::Ordering::*;

/// A word for each receiver and sender: whether the receiver reads a lane of this sender.
#[derive(Clone, Debug)]
pub struct Holds(Shared);

/// The words of one receiver, on lines of their own.
const ROW: usize = 4 * LINE;

impl Holds {
    /// The most senders of one receiver.
    pub const MAX_SENDERS: usize = ROW / 4;

    /// Bytes of the words of this many receivers.
    pub const fn bytes(receivers: usize) -> usize {
        receivers * ROW
    }

    /// The words in this memory.
    pub fn new(memory: Shared) -> Holds {
        Holds(memory)
    }

    fn at(receiver: usize, sender: usize) -> usize {
        assert!(sender < Self::MAX_SENDERS, "no word for it");
        receiver * ROW + sender * 4
    }

    /// The receiver reads a lane of this sender from now on.
    pub fn keep(&self, receiver: usize, sender: usize) {
        self.0.word(Self::at(receiver, sender)).store(1, Relaxed);
    }

    /// The receiver has read all that this sender has left.
    pub fn release(&self, receiver: usize, sender: usize) {
        self.0.word(Self::at(receiver, sender)).store(0, Release); // L, matches M
    }

    /// A new receiver reads no lane yet.
    pub fn release_all(&self, receiver: usize) {
        (0..Self::MAX_SENDERS).for_each(|sender| self.release(receiver, sender));
    }

    /// Whether the receiver may read a lane of this sender.
    pub fn is_kept(&self, receiver: usize, sender: usize) -> bool {
        self.0.word(Self::at(receiver, sender)).load(Acquire) != 0 // M, matches L
    }
}
