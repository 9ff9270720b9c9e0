//! Late or lost: what a sender makes of a message that later ones have passed.
//!
//! ```text
//!   nothing came late so far      three have passed it: lost
//!   some did                      lost when it is older than the *tolerance* (RACK: RFC 8985, §6.2)
//! ```
//!
//! **The tolerance grows** when the receiver says that what was sent again for this reason came twice: to the age at
//! which that is known, which would have been late enough. RACK's steps of a quarter round trip would be too short here: where
//! everything is sent again, the few messages that say something of the round trip (Karn) are those that overtook others.
//!
//! **It shrinks** to the age of what comes late and is waited for, and to nothing when nothing does any more.
//!
//! The receiver takes gaps for loss as well, which it takes off the senders' [share](crate::share), and cannot tell late
//! from lost. While there is a tolerance it is told how much was lost instead.

use std::mem;

use am_wire::{Class, Low, Remark, Seq};

use crate::planted::{self, Bug};
use crate::rtt::{Rtt, Waits};
use crate::slots::Slot;
use crate::time::Time;

/// Later messages that must have arrived before an earlier one counts as lost, where nothing says
/// that the network reorders more than a little.
pub(crate) const REORDERING: i32 = 3;

/// So many tolerances long nothing has to be that late until it shrinks.
const PERIODS: u64 = 16;

/// The peer is told again with so many acknowledgements of gaps.
const AGAIN: u8 = 16;

/// The sender says how much was lost long before so many gaps have been passed again.
const TRUST: u8 = 64;

/// The tolerance grows to so many time-outs, or so many times itself, at once at most: the peer may have been away.
const FASTEST: u64 = 8;

/// One may get lost.
const LATE: u8 = 2;

/// See [`Order::doubts`].
const MOST_UNANSWERED: u8 = 6;

/// What both sides of a flow know of the network's order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Nanoseconds; 0 where nothing came late.
    pub(crate) tolerance: u64,
    /// The oldest that came late and was waited for, since the tolerance last shrank.
    oldest: u64,
    /// Then it may shrink.
    until: Time,
    /// Sent again: was it lost?
    pub(crate) doubt: Option<Doubt>,
    /// Doubts in a row that stayed.
    unanswered: u8,
    /// Messages of ours, of each class, that were taken for lost while there was a tolerance.
    lost: [u32; 2],
    /// Acknowledgements of gaps until the peer is told again.
    untold: [u8; 2],
    /// So often it is told that what seemed lost came late.
    late: [u8; 2],
    /// What the peer says of its own.
    pub(crate) peer: [PeerLost; 2],
    /// What the next acknowledgement says besides.
    pub(crate) remark: Remark,
}

/// What the peer says it has lost of a class.
#[derive(Debug, Default)]
pub(crate) struct PeerLost {
    count: Low,
    /// Gaps for which that counts, and not what they are.
    trust: u8,
}

/// A message that was sent again, once, because later ones had passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) class: Class,
    pub(crate) seq: Seq,
    /// When it was sent at first, and when again.
    sent_at: Time,
    again_at: Time,
}

/// When a message counts as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) now: Time,
    pub(crate) tolerance: u64,
    /// What was sent again already is older than this, or on its way.
    pub(crate) patience: u64,
    /// It is to be known whether this one is among them.
    pub(crate) doubted: Option<Seq>,
}

impl Rule {
    /// So many later messages have to have arrived.
    pub(crate) fn passed(&self) -> i32 {
        if self.tolerance == 0 { REORDERING } else { 1 }
    }

    /// A message that so many have passed is lost from then on.
    pub(crate) fn lost_at<B>(&self, slot: &Slot<B>) -> Time {
        let least = if slot.sent > 1 { self.patience } else { 0 };
        slot.sent_at.later(least.max(self.tolerance))
    }
}

impl Order {
    /// This one is sent again, for the first time. One doubt at a time is enough: at most one answer in a round trip, as
    /// in RACK. What that is may not be known well: each that stays without an answer is waited for the longer.
    pub(crate) fn doubts(&mut self, now: Time, class: Class, (seq, sent_at): (Seq, Time), rtt: &Rtt, waits: &Waits) {
        if let Some(earlier) = &self.doubt {
            let wait = (waits.least << self.unanswered).max(4 * rtt.patience()).max(2 * self.tolerance);
            if now.since(earlier.again_at) < wait {
                return;
            }
            self.unanswered = (self.unanswered + 1).min(MOST_UNANSWERED);
        }
        self.doubt = Some(Doubt { class, seq, sent_at, again_at: now });
    }

    /// It is sent once more: that the receiver had it already would say nothing.
    pub(crate) fn drop_doubt(&mut self) {
        self.doubt = None;
    }

    /// Whether the peer says of its messages that what seems lost mostly comes late.
    pub(crate) fn peer_says_late(&self, class: Class) -> bool {
        self.peer[class.index()].trust > 0
    }

    /// The receiver had this message already. Whether that says that it was sent again for nothing.
    pub(crate) fn repeated(&mut self, now: Time, class: Class, number: Low, rtt: &mut Rtt, waits: &Waits) -> bool {
        let is_it = |doubt: &Doubt| doubt.class == class && Low::from(doubt.seq) == number;
        let Some(Doubt { sent_at, again_at, .. }) = self.doubt.filter(is_it) else { return false };
        (self.doubt, self.unanswered) = (None, 0);
        if !planted::is(Bug::LateIsLost) {
            let most = FASTEST * rtt.patience().max(self.tolerance).max(waits.least);
            // A round trip at least, of one of the two.
            rtt.sample(now.since(again_at));
            self.set(now, now.since(sent_at).min(most).max(self.tolerance), waits);
            self.oldest = 0;
            (self.late, self.untold) = ([LATE; 2], [0; 2]);
        }
        true
    }

    fn set(&mut self, now: Time, tolerance: u64, waits: &Waits) {
        self.tolerance = tolerance.min(waits.most);
        self.until = now.later(PERIODS * self.tolerance);
    }

    /// A message came late, and not again.
    pub(crate) fn came_late(&mut self, age: u64) {
        if self.tolerance > 0 {
            self.oldest = self.oldest.max(age);
        }
    }

    /// A message of the peer came again. What waits to be said goes first: of those that come together it is the first.
    pub(crate) fn came_again(&mut self, class: Class, seq: Seq) {
        if self.remark == Remark::None {
            self.remark = Remark::Repeated(class, seq.into());
        }
    }

    /// With each acknowledgement of gaps: is so much tolerance still needed?
    pub(crate) fn shrink(&mut self, now: Time, rtt: &Rtt, waits: &Waits) {
        if self.tolerance == 0 || now < self.until {
            return;
        }
        let needed = self.oldest + self.oldest / 8;
        let none = if self.tolerance < 2 * rtt.patience() { 0 } else { self.tolerance / 2 };
        self.set(now, if needed > 0 { needed } else { none }, waits);
        self.oldest = 0;
    }

    /// So many more were lost: whether the peer is to hear of it now.
    pub(crate) fn tell(&mut self, class: Class, lost: u32) -> bool {
        if self.tolerance == 0 {
            return false;
        }
        let (count, untold) = (&mut self.lost[class.index()], &mut self.untold[class.index()]);
        *count = count.wrapping_add(lost);
        *untold = if lost > 0 { 0 } else { untold.saturating_sub(1) };
        // What waits to be said goes first: this is said with the next acknowledgement of gaps.
        let is_due = *untold == 0 && self.remark == Remark::None;
        if is_due {
            *untold = AGAIN;
            let (late, count) = (&mut self.late[class.index()], Low::of(*count));
            self.remark = if *late > 0 { Remark::Late(class, count) } else { Remark::Lost(class, count) };
            *late = late.saturating_sub(1);
        }
        is_due
    }
}

impl PeerLost {
    /// How many are news; none where the peer says it for the first time, or for the first time in a while.
    pub(crate) fn told(&mut self, count: Low) -> u32 {
        let is_first = mem::replace(&mut self.trust, TRUST) == 0;
        let news = count.since(self.count);
        // What comes late says less than what came before it.
        let is_late = !is_first && news > Low::MOST / 2;
        if !is_late {
            self.count = count;
        }
        if is_first || is_late { 0 } else { news }
    }

    /// A gap was passed: whether what is missing is to be counted.
    pub(crate) fn is_loss(&mut self) -> bool {
        let is_loss = self.trust == 0;
        self.trust = self.trust.saturating_sub(1);
        is_loss
    }
}

#[cfg(test)]
mod tests;
