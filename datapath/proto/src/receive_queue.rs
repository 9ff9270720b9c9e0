//! The receive side of one flow and class: which messages arrived, and how many more the sender may send. Within the
//! window, messages are accepted in any order, each once. The reorder buffer (`endpoint.rs`) then restores their order,
//! unless the flow was opened without order. (FM 1.0 promises no order, §4.5: a rejected message is sent again later.)
//!
//! Pushed by: frames from below. Popped by: `Core::release`, which grants the credit again. Bounded by: the credits
//! granted. When full: the sender has no credit left. Messages beyond the window are dropped and counted.

use am_wire::control::FinalAck;
use am_wire::{Ack, PiggybackClass, Seq};

use crate::WINDOW;
use crate::fair_share::FlowUsage;
use crate::gaps::{AheadBitmap, Gaps};
use crate::mutants::{self, Mutant};
use crate::reordering::LOSS_THRESHOLD;

/// The position of a message's sequence number relative to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next one in sequence.
    Next,
    /// New, behind a gap.
    Ahead,
    /// The message arrived before.
    Duplicate,
    /// Beyond the window.
    Beyond,
}

#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    /// The first number that has not arrived.
    accepted: Seq,
    /// The messages that arrived beyond `accepted`, if any.
    ahead: Option<Box<AheadBitmap>>,
    /// The number of messages in `ahead`.
    pub(crate) ahead_count: u16,
    /// Credits granted: those the sender still has, and its messages that are not released yet.
    pub(crate) granted: u16,
    /// How many of `granted` exceed the sender's share. A release withholds one of these instead of granting it again.
    surplus: u16,
    /// Messages handled since the last count for the fair share.
    pub(crate) handled: u16,
    /// How much this flow uses, for the fair share.
    pub(crate) usage: FlowUsage,
    /// The first number that the sender may not use yet.
    limit: Seq,
    /// The `limit` of the last acknowledgement.
    advertised: Seq,
}

/// The receive queue of an [idle flow](crate::idle_flows).
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleReceive {
    accepted: Seq,
    limit: Seq,
    pub(crate) granted: u16,
    surplus: u16,
    usage: FlowUsage,
}

impl IdleReceive {
    /// `queue` must be at rest.
    pub(crate) fn of(queue: &ReceiveQueue) -> Self {
        let &ReceiveQueue { accepted, limit, granted, surplus, usage, .. } = queue;
        IdleReceive { accepted, limit, granted, surplus, usage }
    }

    pub(crate) fn queue(self) -> ReceiveQueue {
        let IdleReceive { accepted, limit, granted, surplus, usage } = self;
        ReceiveQueue { granted, surplus, usage, limit, advertised: limit, ..ReceiveQueue::new(accepted, 0) }
    }

    /// The acknowledgement of everything that arrived.
    pub(crate) fn ack(self) -> Ack {
        Ack { accepted: self.accepted, limit: self.limit, sack: 0 }
    }
}

impl ReceiveQueue {
    /// Whether there is no gap, and the last acknowledgement had the current limit.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ahead.is_none() && self.unadvertised() == 0
    }

    pub(crate) fn new(first: Seq, credits: u16) -> Self {
        let limit = first.plus(credits as u32);
        ReceiveQueue {
            accepted: first,
            ahead: None,
            ahead_count: 0,
            granted: credits,
            surplus: 0,
            handled: 0,
            usage: FlowUsage::default(),
            limit,
            advertised: limit,
        }
    }

    /// The number near which other numbers are expanded.
    #[inline]
    pub(crate) fn next_expected(&self) -> Seq {
        self.accepted
    }

    #[inline]
    pub(crate) fn verdict(&self, seq: Seq) -> Verdict {
        if mutants::is_active(Mutant::DuplicateAfterWrap) && seq.0 > self.accepted.0 {
            return Verdict::Ahead;
        }
        match seq.since(self.accepted) {
            0 => Verdict::Next,
            ..0 => Verdict::Duplicate,
            distance if distance >= WINDOW as i32 => Verdict::Beyond,
            _ if self.is_ahead(seq) => Verdict::Duplicate,
            _ => Verdict::Ahead,
        }
    }

    /// Accept a message whose verdict is `Next` or `Ahead`. Returns how many missing messages count as lost from now on:
    /// 0 until enough later ones have arrived.
    #[inline]
    pub(crate) fn accept(&mut self, seq: Seq, gaps: &mut Gaps) -> u32 {
        if seq != self.accepted {
            self.ahead.get_or_insert_with(|| gaps.take_bitmap()).set(seq);
            self.ahead_count += 1;
            let numbers = seq.since(self.accepted) as u32 + 1;
            let missing = numbers.saturating_sub(self.ahead_count as u32).max(1);
            return if self.ahead_count == self.loss_threshold() { missing } else { 0 };
        }
        self.accepted = self.accepted.plus(1);
        if self.ahead.is_some() {
            self.close_gap(gaps);
        }
        0
    }

    /// Whether this is the next message, and none arrived behind it.
    #[inline]
    pub(crate) fn is_next(&self, seq: Seq) -> bool {
        seq == self.accepted && self.ahead_count == 0 && !mutants::is_active(Mutant::GeneralWay)
    }

    /// Accept the next messages, while none is missing. Returns the number of the first.
    #[inline]
    pub(crate) fn accept_next(&mut self, count: usize) -> Seq {
        let first = self.accepted;
        self.accepted = first.plus(count as u32);
        first
    }

    /// How many messages beyond a gap make the missing ones count as lost. With little credit the sender cannot send
    /// [`LOSS_THRESHOLD`] of them, so fewer are enough.
    fn loss_threshold(&self) -> u16 {
        (LOSS_THRESHOLD as u16).min(self.granted.saturating_sub(1)).max(1)
    }

    /// Advance over what arrived beyond the closed gap.
    fn close_gap(&mut self, gaps: &mut Gaps) {
        let Some(mut ahead) = self.ahead.take() else { return };
        while ahead.has(self.accepted) {
            ahead.unset(self.accepted);
            self.ahead_count -= 1;
            self.accepted = self.accepted.plus(1);
        }
        if self.ahead_count == 0 {
            gaps.release_bitmap(ahead);
        } else {
            self.ahead = Some(ahead);
        }
    }

    #[inline]
    fn is_ahead(&self, seq: Seq) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.has(seq))
    }

    /// Messages were handled: grant their credits again. Returns how many of these are withheld, because the sender has more
    /// than its share.
    #[inline]
    #[must_use]
    pub(crate) fn release(&mut self, count: u16) -> u16 {
        if mutants::is_active(Mutant::CreditLeak) && self.accepted.0.is_multiple_of(32) {
            return 0;
        }
        self.handled += count;
        let withheld = if self.surplus == 0 { 0 } else { self.withhold(count) };
        self.limit = self.limit.plus((count - withheld).into());
        withheld
    }

    /// As [`release`](Self::release), if no credit is withheld, and the sender need not learn of them soon. Otherwise nothing has
    /// happened.
    #[inline(always)]
    pub(crate) fn release_all(&mut self, count: u16) -> bool {
        let limit = self.limit.plus(count.into());
        let is_urgent = 2 * limit.since(self.advertised) >= i32::from(self.granted);
        if is_urgent || self.surplus > 0 || mutants::is_active(Mutant::CreditLeak) {
            return false;
        }
        self.handled += count;
        self.limit = limit;
        true
    }

    #[cold]
    fn withhold(&mut self, most: u16) -> u16 {
        let withheld = most.min(self.surplus);
        self.surplus -= withheld;
        self.granted -= withheld;
        withheld
    }

    /// Whether the handled messages may be counted with later ones: the sender has its share, of which they are a small part.
    #[inline]
    pub(crate) fn may_be_counted_later(&self, share: u16) -> bool {
        self.granted == share && self.handled < share / 8
    }

    /// Set this sender's share. Credits beyond it are withheld once they are used. Returns how many credits the sender
    /// lacks.
    pub(crate) fn fit_to_share(&mut self, share: u16) -> u16 {
        self.surplus = self.granted.saturating_sub(share);
        share.saturating_sub(self.granted)
    }

    /// The flow ended. Returns the credits to release to the budget. Later releases withhold nothing.
    pub(crate) fn close(&mut self) -> u16 {
        self.surplus = 0;
        self.granted
    }

    pub(crate) fn grant(&mut self, credits: u16) {
        self.granted += credits;
        let made_up = mutants::is_active(Mutant::CreditMadeUp) as u32;
        self.limit = self.limit.plus(credits as u32 + made_up);
    }

    /// Whether the sender may send a message that has not arrived.
    pub(crate) fn has_credit_left(&self) -> bool {
        self.limit.since(self.accepted) > i32::from(self.ahead_count)
    }

    /// Credit granted since the last acknowledgement.
    #[inline]
    pub(crate) fn unadvertised(&self) -> u32 {
        self.limit.since(self.advertised) as u32
    }

    /// Whether at least half of the sender's credit is unadvertised, so that it should learn of it soon.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.unadvertised() * 2 >= self.granted as u32
    }

    /// The low 16 bits of an acknowledgement, for a piggyback. It advertises the limit.
    #[inline]
    pub(crate) fn take_short_ack(&mut self) -> PiggybackClass {
        self.advertised = self.limit;
        PiggybackClass { accepted: self.accepted.0 as u16, limit: self.limit.0 as u16 }
    }

    /// The whole acknowledgement. It advertises the limit.
    pub(crate) fn take_ack(&mut self) -> Ack {
        self.advertised = self.limit;
        Ack { accepted: self.accepted, limit: self.limit, sack: self.sack() }
    }

    pub(crate) fn has_arrived(&self, seq: Seq) -> bool {
        seq.before(self.accepted) || self.is_ahead(seq)
    }

    /// The last acknowledgement of a flow. It does not cover the messages in `without`.
    pub(crate) fn final_ack(&self, without: &[Seq]) -> FinalAck {
        let has = |seq: &Seq| self.has_arrived(*seq) && !without.contains(seq);
        let first = without.iter().copied().min_by_key(|seq| seq.since(self.accepted));
        let before = first.filter(|seq| seq.before(self.accepted)).unwrap_or(self.accepted);
        let before = if mutants::is_active(Mutant::CloseForgets) { before.plus(u32::MAX) } else { before };
        let bits = (0..u64::BITS).filter(|&i| has(&before.plus(1 + i)));
        FinalAck { before, sack: bits.fold(0, |sack, i| sack | 1 << i) }
    }

    fn sack(&self) -> u64 {
        if self.ahead.is_none() {
            return 0;
        }
        (0..u64::BITS).filter(|&i| self.is_ahead(self.accepted.plus(1 + i))).fold(0, |sack, i| sack | 1 << i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn queue(first: u32) -> ReceiveQueue {
        ReceiveQueue::new(Seq(first), 256)
    }

    #[test]
    fn a_verdict_for_each_number() {
        let (mut queue, mut gaps) = (queue(10), Gaps::default());
        assert_eq!(queue.verdict(Seq(9)), Verdict::Duplicate);
        assert_eq!(queue.verdict(Seq(10)), Verdict::Next);
        assert_eq!(queue.verdict(Seq(11)), Verdict::Ahead);
        assert_eq!(queue.verdict(Seq(10 + WINDOW as u32)), Verdict::Beyond);
        queue.accept(Seq(12), &mut gaps);
        assert_eq!(queue.verdict(Seq(12)), Verdict::Duplicate);
        assert_eq!(queue.take_ack().sack, 0b10, "10 is missing, 11 too, 12 is here");
        queue.accept(Seq(10), &mut gaps);
        queue.accept(Seq(11), &mut gaps);
        assert_eq!((queue.take_ack().accepted, queue.take_ack().sack), (Seq(13), 0));
    }

    #[test]
    fn credit_is_advertised_once() {
        let mut queue = queue(u32::MAX - 3);
        for _ in 0..129 {
            assert_eq!(queue.release(1), 0);
        }
        assert!(queue.is_urgent());
        assert_eq!(queue.take_ack().limit, Seq(u32::MAX - 3).plus(256 + 129));
        assert_eq!((queue.unadvertised(), queue.is_urgent()), (0, false));
    }

    #[test]
    fn credit_is_fitted_to_the_share() {
        let (mut queue, mut gaps) = (ReceiveQueue::new(Seq(0), 8), Gaps::default());
        (0..8).for_each(|seq| _ = queue.accept(Seq(seq), &mut gaps));
        assert_eq!(queue.fit_to_share(3), 0);
        assert_eq!([3, 4, 1].map(|count| queue.release(count)), [3, 2, 0], "five are not granted again");
        assert_eq!((queue.granted, queue.take_ack().limit), (3, Seq(11)));
        assert_eq!(queue.handled, 8);
        assert_eq!(queue.fit_to_share(5), 2);
        queue.grant(2);
        assert_eq!((queue.granted, queue.take_ack().limit), (5, Seq(13)));
    }

    /// Two queues: one releases only as in general.
    #[test]
    fn the_short_way_of_releasing_does_the_same() {
        for (share, expected) in [(6, 2), (8, 3), (16, 3)] {
            let [mut short, mut general] = [(); 2].map(|()| ReceiveQueue::new(Seq(u32::MAX - 3), 8));
            for queue in [&mut short, &mut general] {
                queue.fit_to_share(share);
            }
            let mut taken = 0;
            for _ in 0..8 {
                let before = short.limit;
                let withheld = general.release(1);
                if short.release_all(1) {
                    taken += 1;
                } else {
                    assert_eq!((before, withheld), (short.limit, short.release(1)));
                }
                let [of_short, of_general] = [&short, &general].map(|it| (it.limit, it.granted, it.handled));
                assert_eq!(of_short, of_general);
            }
            assert_eq!(taken, expected, "none while credit is withheld, and none once half of it is unadvertised");
        }
    }

    #[test]
    fn an_overtaken_gap_is_a_loss() {
        let (mut queue, mut gaps) = (queue(0), Gaps::default());
        let missing = [0, 2, 3, 6, 7].map(|seq| queue.accept(Seq(seq), &mut gaps));
        assert_eq!(missing, [0, 0, 0, 3, 0], "at first it may only be late; then 1, 4 and 5, once");
    }

    proptest! {
        /// Compared with a set of everything ever accepted, across the wrap.
        #[test]
        fn accepts_each_once(steps in prop::collection::vec(-40i32..80, 0..4000)) {
            let first = Seq(u32::MAX - 1000);
            let (mut queue, mut gaps) = (ReceiveQueue::new(first, 256), Gaps::default());
            let (mut seen, mut accepted) = (BTreeSet::new(), 0);
            for step in steps {
                let near = queue.next_expected().since(first);
                let at = (near + step).max(0);
                let seq = first.plus(at as u32);
                let verdict = queue.verdict(seq);
                prop_assert_eq!(verdict == Verdict::Duplicate, seen.contains(&at), "{} {:?}", at, verdict);
                if verdict != Verdict::Duplicate {
                    queue.accept(seq, &mut gaps);
                    seen.insert(at);
                }
                accepted = (accepted..).find(|n| !seen.contains(n)).unwrap_or_default();
                prop_assert_eq!(queue.next_expected(), first.plus(accepted as u32));
            }
            let sack = queue.take_ack().sack;
            for bit in 0..64 {
                let number = queue.next_expected().since(first) + 1 + bit;
                prop_assert_eq!(sack >> bit & 1 == 1, seen.contains(&number));
            }
        }
    }
}
