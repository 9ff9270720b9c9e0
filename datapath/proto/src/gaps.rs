//! What has arrived beyond a gap: a bitmap for each receive queue that has
//! one, and for no other, so that memory grows with what is outstanding and
//! not with the number of peers (FM 1.0 §4.5).
//!
//! Pushed by: a queue whose last gap is closed. Popped by: a queue that gets its
//! first gap. Bounded by: the queues that ever had gaps at the same time. When
//! empty: a new bitmap is made.

use std::mem;

use wire::Seq;

use crate::WINDOW;

/// Bit `n % WINDOW` for number `n`.
#[derive(Debug)]
pub(crate) struct Ahead([u64; WINDOW / 64]);

/// Bitmaps that no queue needs now; all clear.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a bitmap goes to a queue and back as it is, without a copy")]
pub(crate) struct Gaps {
    spare: Vec<Box<Ahead>>,
    /// Messages lost, or without room, since this was last asked.
    lost: u32,
}

impl Gaps {
    /// With so many bitmaps from the start.
    pub(crate) fn new(count: usize) -> Self {
        Gaps { spare: (0..count).map(|_| Ahead::clear()).collect(), lost: 0 }
    }

    /// So many messages did not arrive, or found no room.
    #[cold]
    pub(crate) fn lost(&mut self, messages: u32) {
        self.lost = self.lost.saturating_add(messages);
    }

    /// Messages lost since this was last asked.
    pub(crate) fn take_lost(&mut self) -> u32 {
        mem::take(&mut self.lost)
    }

    #[cold]
    pub(crate) fn take(&mut self) -> Box<Ahead> {
        self.spare.pop().unwrap_or_else(Ahead::clear)
    }

    /// `ahead` is clear again.
    #[cold]
    pub(crate) fn give_back(&mut self, ahead: Box<Ahead>) {
        debug_assert!(ahead.0.iter().all(|&limb| limb == 0));
        self.spare.push(ahead);
    }
}

impl Ahead {
    fn clear() -> Box<Self> {
        Box::new(Ahead([0; WINDOW / 64]))
    }

    #[inline]
    pub(crate) fn has(&self, seq: Seq) -> bool {
        self.0[limb(seq)] & bit(seq) != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, seq: Seq) {
        self.0[limb(seq)] |= bit(seq);
    }

    #[inline]
    pub(crate) fn unset(&mut self, seq: Seq) {
        self.0[limb(seq)] &= !bit(seq);
    }
}

#[inline]
fn limb(seq: Seq) -> usize {
    seq.0 as usize % WINDOW / 64
}

#[inline]
fn bit(seq: Seq) -> u64 {
    1 << (seq.0 % 64)
}
