//! Memory for flows with gaps: a bitmap for each receive queue that has a gap, and [loss-detection state](crate::order)
//! for each flow that had one. Other flows need none, so memory grows with the messages outstanding and not with the
//! number of peers (FM 1.0 §4.5).
//!
//! Pushed by: a queue whose last gap is closed; a flow that ends. Popped by: a queue that gets its first gap; a flow
//! that gets its first gap or duplicate. Bounded by: the most that were in use at one time. When empty: a new one is
//! allocated.

use std::mem;

use am_wire::Seq;

use crate::WINDOW;
use crate::order::Order;

/// How many of each are allocated at the start.
const READY: usize = 16;

/// Bit `n % WINDOW` for number `n`.
#[derive(Debug)]
pub(crate) struct Ahead([u64; WINDOW / 64]);

/// The spare bitmaps, all clear, and the spare states.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a bitmap goes to a queue and back as it is, without a copy")]
pub(crate) struct Gaps {
    spare: Vec<Box<Ahead>>,
    orders: Vec<Box<Order>>,
    /// Messages lost, or without room, since this was last asked.
    lost: u32,
}

impl Gaps {
    pub(crate) fn new() -> Self {
        let spare = (0..READY).map(|_| Ahead::clear()).collect();
        let orders = (0..READY).map(|_| Box::default()).collect();
        Gaps { spare, orders, lost: 0 }
    }

    /// Count messages that were lost or found no room.
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

    /// `ahead` must be clear.
    #[cold]
    pub(crate) fn give_back(&mut self, ahead: Box<Ahead>) {
        debug_assert!(ahead.0.iter().all(|&limb| limb == 0));
        self.spare.push(ahead);
    }

    #[cold]
    pub(crate) fn take_order(&mut self) -> Box<Order> {
        self.orders.pop().unwrap_or_default()
    }

    #[cold]
    pub(crate) fn give_back_order(&mut self, mut order: Box<Order>) {
        *order = Order::default();
        self.orders.push(order);
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
