//! Memory for flows with gaps: a bitmap for each receive queue that has a gap, and [loss-detection state](crate::reordering)
//! for each flow that had one. Other flows need none, so memory grows with the messages outstanding and not with the
//! number of peers (FM 1.0 §4.5).
//!
//! Pushed by: a queue whose last gap is closed; a flow that ends. Popped by: a queue that gets its first gap; a flow
//! that gets its first gap or duplicate. Bounded by: the most that were in use at one time. When empty: a new one is
//! allocated.

use am_wire::Seq;

use crate::WINDOW;
use crate::reordering::Reordering;

/// How many of each are allocated at the start.
const INITIAL_SPARES: usize = 16;

/// Bit `n % WINDOW` for number `n`.
#[derive(Debug)]
pub(crate) struct AheadBitmap([u64; WINDOW / 64]);

/// The spare bitmaps, all clear, and the spare states.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a bitmap goes to a queue and back as it is, without a copy")]
pub(crate) struct Gaps {
    spare: Vec<Box<AheadBitmap>>,
    spare_reorderings: Vec<Box<Reordering>>,
    /// Messages lost, or without room, since this was last asked.
    pub(crate) lost: u32,
}

impl Gaps {
    pub(crate) fn new() -> Self {
        let spare = (0..INITIAL_SPARES).map(|_| AheadBitmap::clear()).collect();
        let orders = (0..INITIAL_SPARES).map(|_| Box::default()).collect();
        Gaps { spare, spare_reorderings: orders, lost: 0 }
    }

    #[cold]
    pub(crate) fn count_lost(&mut self, messages: u32) {
        self.lost = self.lost.saturating_add(messages);
    }

    #[cold]
    pub(crate) fn take_bitmap(&mut self) -> Box<AheadBitmap> {
        self.spare.pop().unwrap_or_else(AheadBitmap::clear)
    }

    /// `ahead` must be clear.
    #[cold]
    pub(crate) fn release_bitmap(&mut self, ahead: Box<AheadBitmap>) {
        debug_assert!(ahead.0.iter().all(|&limb| limb == 0));
        self.spare.push(ahead);
    }

    #[cold]
    pub(crate) fn take_reordering(&mut self) -> Box<Reordering> {
        self.spare_reorderings.pop().unwrap_or_default()
    }

    #[cold]
    pub(crate) fn release_reordering(&mut self, mut order: Box<Reordering>) {
        *order = Reordering::default();
        self.spare_reorderings.push(order);
    }
}

impl AheadBitmap {
    fn clear() -> Box<Self> {
        Box::new(AheadBitmap([0; WINDOW / 64]))
    }

    #[inline]
    pub(crate) fn has(&self, seq: Seq) -> bool {
        self.0[seq.0 as usize % WINDOW / 64] & (1 << (seq.0 % 64)) != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, seq: Seq) {
        self.0[seq.0 as usize % WINDOW / 64] |= 1 << (seq.0 % 64);
    }

    #[inline]
    pub(crate) fn unset(&mut self, seq: Seq) {
        self.0[seq.0 as usize % WINDOW / 64] &= !(1 << (seq.0 % 64));
    }
}
