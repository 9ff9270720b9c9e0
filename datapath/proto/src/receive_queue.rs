//! The receive side of one flow and class: what has arrived, and how much more
//! may. Messages are accepted in any order within the window, each once; FM 1.0
//! promises no order either (§4.5: a returned message is sent again later).
//!
//! Pushed by: frames from below. Popped by: `Core::release` (credit returns).
//! Bounded by: the credit granted. When full: the sender has no credit left;
//! what comes all the same is dropped and counted.

use wire::{Ack, Seq};

use crate::WINDOW;

const LIMBS: usize = WINDOW / 64;

/// Whether a message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next one in sequence.
    Next,
    /// New, with a gap before it.
    Ahead,
    /// Has arrived before.
    Duplicate,
    /// Further ahead than the window.
    Beyond,
}

#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    /// The first number that has not arrived.
    accepted: Seq,
    /// Arrived beyond it: bit `n % WINDOW` for number `n`.
    ahead: [u64; LIMBS],
    /// How many bits are set in `ahead`.
    gaps: u16,
    /// Credit granted in the beginning.
    granted: u16,
    /// The first number that the sender may not use yet.
    limit: Seq,
    /// The limit that the sender was last told.
    told: Seq,
}

impl ReceiveQueue {
    pub(crate) fn new(first: Seq, credits: u16) -> Self {
        let limit = first.plus(credits as u32);
        ReceiveQueue { accepted: first, ahead: [0; LIMBS], gaps: 0, granted: credits, limit, told: limit }
    }

    /// The number near which others are to be read.
    #[inline]
    pub(crate) fn near(&self) -> Seq {
        self.accepted
    }

    /// Credits that this side reserved.
    pub(crate) fn granted(&self) -> u16 {
        self.granted
    }

    /// What would [`ReceiveQueue::accept`] say?
    #[inline]
    pub(crate) fn verdict(&self, seq: Seq) -> Verdict {
        match seq.since(self.accepted) {
            0 => Verdict::Next,
            ..0 => Verdict::Duplicate,
            distance if distance >= WINDOW as i32 => Verdict::Beyond,
            _ if self.is_ahead(seq) => Verdict::Duplicate,
            _ => Verdict::Ahead,
        }
    }

    /// Take a message whose verdict is `Next` or `Ahead`.
    #[inline]
    pub(crate) fn accept(&mut self, seq: Seq) {
        if seq != self.accepted {
            self.ahead[limb(seq)] |= bit(seq);
            self.gaps += 1;
            return;
        }
        self.accepted = self.accepted.plus(1);
        while self.gaps > 0 && self.is_ahead(self.accepted) {
            self.ahead[limb(self.accepted)] &= !bit(self.accepted);
            self.gaps -= 1;
            self.accepted = self.accepted.plus(1);
        }
    }

    #[inline]
    fn is_ahead(&self, seq: Seq) -> bool {
        self.gaps > 0 && self.ahead[limb(seq)] & bit(seq) != 0
    }

    /// A message was handled: one more may come.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.limit = self.limit.plus(1);
    }

    /// Credit that the sender does not know of yet.
    #[inline]
    pub(crate) fn untold(&self) -> u32 {
        self.limit.since(self.told) as u32
    }

    /// Whether that is so much that the sender should hear of it soon.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.untold() * 2 > self.granted as u32
    }

    /// The low 16 bits of what an acknowledgement says; the sender is told.
    #[inline]
    pub(crate) fn tell_short(&mut self) -> (u16, u16) {
        self.told = self.limit;
        (self.accepted.0 as u16, self.limit.0 as u16)
    }

    /// The whole acknowledgement; the sender is told.
    pub(crate) fn tell(&mut self) -> Ack {
        self.told = self.limit;
        Ack { accepted: self.accepted, limit: self.limit, sack: self.sack() }
    }

    fn sack(&self) -> u64 {
        if self.gaps == 0 {
            return 0;
        }
        (0..u64::BITS).filter(|&i| self.is_ahead(self.accepted.plus(1 + i))).fold(0, |sack, i| sack | 1 << i)
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
