//! The send queue of one flow and class: FM's LANai send queue with its two counters, `hostsent` (here `next`) and
//! `lanaisent` (here `sent`).
//!
//! ```text
//!      acked ╷  in flight, kept   ╷ admitted, waiting for credit ╷
//!  ──────────┼────────────────────┼──────────────────────────────┼─────▶ sequence
//!          unacked              sent                           next
//! ```
//!
//! Pushed by: `Core::send`. Popped by: acknowledgements. Bounded by: the receiver's credit (`limit`) and the window.
//! When full: requests are not admitted (`NoCredit`); replies wait here, at most one for each request that arrived.

use std::mem;
use std::time::Duration;

use am_wire::control::FinalAck;
use am_wire::{Ack, Seq};

use crate::WINDOW;
use crate::reordering::{LOSS_THRESHOLD, LossRule};
use crate::slots::{Leaves, NO_SLOT, Slot, SlotIndex, Slots};
use crate::time::Time;

#[derive(Debug)]
pub(crate) struct SendQueue {
    unacked: Seq,
    sent: Seq,
    next: Seq,
    /// The first number that the receiver does not allow yet.
    limit: Seq,
    head: SlotIndex,
    tail: SlotIndex,
    /// The first slot that was not queued for sending.
    unsent: SlotIndex,
}

/// A message fails only after the RTO has expired this often with the message in flight. By the clock alone, a process
/// that was stopped for a while would fail everything it had just sent.
const MIN_STUCK_TIMEOUTS: u8 = 16;

/// What an acknowledgement changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AckProgress {
    pub(crate) acked: u32,
    /// Whether it closed a gap that later messages had overtaken.
    pub(crate) closed_gap: ClosedGap,
    /// When the last acknowledged message was sent, if none of them was sent again: a round-trip sample.
    pub(crate) sample: Option<Time>,
}

/// Whether an acknowledgement closed a gap that later messages had overtaken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ClosedGap {
    #[default]
    No,
    /// Yes, by a message that was sent again.
    Repaired,
    /// Yes, by a message that was sent once, at this time, and came late.
    Late(Time),
}

/// The result of [`SendQueue::resend_lost`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LostMessages {
    /// Messages queued to be sent again.
    pub(crate) count: u32,
    /// The first of them that had been sent only once, and when.
    pub(crate) first_time: Option<(Seq, Time)>,
    pub(crate) has_doubted: bool,
    /// When the next message counts as lost.
    pub(crate) next: Time,
}

/// The send queue of an [idle flow](crate::idle_flows).
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleSend {
    next: Seq,
    limit: Seq,
}

impl IdleSend {
    /// `queue` must be empty.
    pub(crate) fn of(queue: &SendQueue) -> Self {
        IdleSend { next: queue.next, limit: queue.limit }
    }

    pub(crate) fn queue(self) -> SendQueue {
        SendQueue { limit: self.limit, ..SendQueue::new(self.next) }
    }

    /// Whether this acknowledgement changes nothing.
    pub(crate) fn is_known(&self, ack: &Ack) -> bool {
        (ack.accepted, ack.limit, ack.sack) == (self.next, self.limit, 0)
    }
}

impl SendQueue {
    pub(crate) fn new(first: Seq) -> Self {
        SendQueue {
            unacked: first,
            sent: first,
            next: first,
            limit: first,
            head: NO_SLOT,
            tail: NO_SLOT,
            unsent: NO_SLOT,
        }
    }

    /// The number of the first message, as offered at set-up.
    pub(crate) fn first(&self) -> Seq {
        self.unacked
    }

    /// How many more messages may be admitted without waiting.
    #[inline]
    pub(crate) fn credit(&self) -> u32 {
        let allowed = self.limit.since(self.next);
        let room = WINDOW as i32 - self.next.since(self.unacked);
        allowed.min(room).max(0) as u32
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> bool {
        self.unacked != self.sent
    }

    /// Whether all credit is used and acknowledged: nothing in flight will bring more.
    pub(crate) fn is_out_of_credit(&self) -> bool {
        !self.in_flight() && !self.sent.before(self.limit)
    }

    /// Whether every admitted message is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.unacked == self.next
    }

    /// Messages kept, sent or not.
    pub(crate) fn outstanding<B>(&self, slots: &Slots<B>) -> usize {
        self.kept(slots).map(|(link, _)| slots.left(link).count()).sum()
    }

    /// The slots with messages, oldest first.
    pub(crate) fn kept<'a, B>(&self, slots: &'a Slots<B>) -> impl Iterator<Item = (SlotIndex, &'a Slot<B>)> {
        slots.list(self.head, NO_SLOT).filter(|(_, slot)| slot.frame.is_some())
    }

    /// The numbers near which an acknowledgement and a limit are expanded.
    #[inline]
    pub(crate) fn expansion_base(&self) -> (Seq, Seq) {
        (self.unacked, self.limit)
    }

    /// The oldest message in flight that is not in the reject queue.
    pub(crate) fn oldest_in_flight<B>(&self, slots: &Slots<B>) -> Option<SlotIndex> {
        slots.list(self.head, self.unsent).find(|(_, slot)| !slot.rejected).map(|(link, _)| link)
    }

    /// The RTO expired. Returns whether the oldest message does not arrive, although it has been sent again and again for
    /// longer than `patience`. (A rejected message did arrive.)
    pub(crate) fn is_stuck<B>(&self, slots: &mut Slots<B>, now: Time, patience: Duration) -> bool {
        let Some(slot) = self.oldest_in_flight(slots).map(|link| &mut slots[link]).filter(|slot| slot.times_sent > 0)
        else {
            return false;
        };
        if slot.timeouts == 0 {
            slot.first_timeout_at = now;
        }
        slot.timeouts = slot.timeouts.saturating_add(1);
        slot.timeouts > MIN_STUCK_TIMEOUTS && now - slot.first_timeout_at >= patience
    }

    /// The peer does not poll, so the RTO of its oldest message proves nothing: count from zero.
    pub(crate) fn forget_timeouts<B>(&self, slots: &mut Slots<B>) {
        self.oldest_in_flight(slots).into_iter().for_each(|link| slots[link].timeouts = 0);
    }

    /// This message was rejected, and those behind it in its frame. Returns how many these are, if the frame is in flight and not about to
    /// be sent again anyway.
    pub(crate) fn reject<B>(&self, slots: &mut Slots<B>, seq: Seq) -> u32 {
        if !(0..self.sent.since(self.unacked)).contains(&seq.since(self.unacked)) {
            return 0;
        }
        let Some((link, place)) = self.find_in_flight(slots, seq) else { return 0 };
        let left = (slots.left(link).left >> place).count_ones();
        let slot = &mut slots[link];
        slot.timeouts = 0;
        let is_news = !slot.is_to_be_sent() && !mem::replace(&mut slot.rejected, true);
        if is_news { left } else { 0 }
    }

    /// The slot of this message, and its place there, if it was sent and is not acknowledged.
    pub(crate) fn find_in_flight<B>(&self, slots: &Slots<B>, seq: Seq) -> Option<(SlotIndex, u8)> {
        if !(0..self.sent.since(self.unacked)).contains(&seq.since(self.unacked)) {
            return None;
        }
        let mut all = slots.list(self.head, self.unsent);
        let (link, slot, place) = all.find_map(|(link, slot)| Some((link, slot, slot.place_of(seq)?)))?;
        let is_left = slot.frame.is_some() && slots.left(link).left >> place & 1 == 1;
        (is_left && slot.times_sent > 0).then_some((link, place))
    }

    /// Append a filled slot, and give it its number. It is queued for sending if credit and window allow, and no earlier one waits.
    #[inline(always)]
    pub(crate) fn push<B>(&mut self, slots: &mut Slots<B>, link: SlotIndex) {
        let leaves = self.unsent == NO_SLOT && self.allows_one();
        let slot = &mut slots[link];
        (slot.seq, slot.next, slot.queued) = (self.next, NO_SLOT, leaves);
        self.next = self.next.plus(1);
        if self.tail == NO_SLOT {
            self.head = link;
        } else {
            slots[self.tail].next = link;
        }
        self.tail = link;
        if leaves {
            slots.ready.push_back(link);
            self.sent = self.next;
        } else if self.unsent == NO_SLOT {
            self.unsent = link;
        }
    }

    /// The last slot, if its frame has not left yet, and credit and window allow one message more.
    #[inline]
    pub(crate) fn last_to_leave<'a, B>(&self, slots: &'a mut Slots<B>) -> Option<&'a mut Slot<B>> {
        let slot = slots.slots.get_mut(self.tail as usize)?;
        (slot.queued && slot.times_sent == 0 && slot.leaves == Leaves::Whole && self.allows_one()).then_some(slot)
    }

    /// A message was added to the last slot, which leaves.
    #[inline]
    pub(crate) fn note_appended(&mut self) {
        self.next = self.next.plus(1);
        self.sent = self.next;
    }

    /// Whether credit and window allow one more message.
    #[inline]
    fn allows_one(&self) -> bool {
        self.sent.before(self.limit) && self.sent.since(self.unacked) < WINDOW as i32
    }

    /// Queue for sending what credit and window allow.
    #[inline]
    pub(crate) fn queue_allowed<B>(&mut self, slots: &mut Slots<B>) {
        while self.unsent != NO_SLOT && self.allows_one() {
            let slot = &mut slots[self.unsent];
            slot.queued = true;
            let link = mem::replace(&mut self.unsent, slot.next);
            slots.ready.push_back(link);
            self.sent = self.sent.plus(1);
        }
    }

    /// The receiver allows everything before `limit`. An older limit changes nothing.
    #[inline]
    pub(crate) fn allow(&mut self, limit: Seq) {
        if (0..=2 * WINDOW as i32).contains(&limit.since(self.unacked)) {
            self.limit = self.limit.max(limit);
        }
    }

    /// Everything before `accepted` arrived. A number that was never sent changes nothing.
    #[inline(always)]
    pub(crate) fn acknowledge<B>(&mut self, slots: &mut Slots<B>, accepted: Seq) -> AckProgress {
        // Both are relative to the oldest message: a number half the circle away would be both before and after.
        let (first, news) = (self.unacked, accepted.since(self.unacked));
        if news <= 0 || news > self.sent.since(first) {
            return AckProgress::default();
        }
        let mut sample = None;
        while self.unacked != accepted {
            let slot = &mut slots.slots[self.head as usize];
            let end = slot.end();
            let is_usual = slot.frame.is_some() && slot.times_sent == 1 && !slot.queued && slot.leaves == Leaves::Whole;
            if !is_usual || accepted.before(end) {
                let acked = self.unacked.since(first) as u32;
                return self.acknowledge_unusual(
                    slots,
                    accepted,
                    AckProgress { acked, sample, ..AckProgress::default() },
                );
            }
            sample = Some(slot.sent_at);
            (slot.frame, slot.rejected) = (None, false);
            slots.free.push(mem::replace(&mut self.head, slot.next));
            self.unacked = end;
        }
        if self.head == NO_SLOT {
            self.tail = NO_SLOT;
        }
        AckProgress { acked: news as u32, sample, ..AckProgress::default() }
    }

    /// The same from the oldest slot on, which was sent again or may leave again, or of which some messages were acknowledged before or are
    /// not yet.
    #[cold]
    fn acknowledge_unusual<B>(
        &mut self,
        slots: &mut Slots<B>,
        accepted: Seq,
        mut progress: AckProgress,
    ) -> AckProgress {
        let mut resent = false;
        while self.unacked.before(accepted) {
            let link = self.head;
            let slot = &slots[link];
            let (end, next, sent_at, before) = (slot.end(), slot.next, slot.sent_at, accepted.since(slot.seq) as u32);
            resent |= slot.times_sent > 1;
            if slot.frame.is_some() {
                progress.acked += slots.acknowledge_some(link, !u64::MAX.checked_shl(before).unwrap_or(0));
                // A cumulative acknowledgement that was delayed by a gap measures the repair of the gap, not the path.
                progress.sample = (!resent).then_some(sent_at);
            } else if progress.closed_gap == ClosedGap::No {
                progress.closed_gap = progress.sample.map_or(ClosedGap::Repaired, ClosedGap::Late);
            }
            if accepted.before(end) {
                self.unacked = accepted;
            } else {
                (self.head, self.unacked) = (next, end);
                slots.release(link);
            }
        }
        if self.head == NO_SLOT {
            self.tail = NO_SLOT;
        }
        progress
    }

    /// A selective acknowledgement: bit `i` stands for `accepted + 1 + i`. Call [`SendQueue::acknowledge`] of the same
    /// frame first. Returns how many messages it newly acknowledges, and when the oldest one of these that was late was
    /// sent: later ones had overtaken it, and it was sent only once.
    pub(crate) fn acknowledge_selected<B>(
        &self,
        slots: &mut Slots<B>,
        accepted: Seq,
        sack: u64,
    ) -> (u32, Option<Time>) {
        let (mut acked, mut oldest, mut late) = (0, None, None);
        let mut link = self.head;
        while link != NO_SLOT && link != self.unsent {
            let slot = &slots[link];
            let (next, sent_at, is_first) = (slot.next, slot.sent_at, slot.times_sent == 1);
            let bit = slot.seq.since(accepted).wrapping_sub(1);
            if bit >= u64::BITS as i32 {
                break;
            }
            let mask = if bit < 0 { sack.checked_shl(bit.unsigned_abs()) } else { sack.checked_shr(bit as u32) };
            if slot.frame.is_none() {
                late = oldest;
            } else if let Some(mask) = mask.filter(|mask| *mask != 0) {
                let news = slots.acknowledge_some(link, mask);
                acked += news;
                oldest = oldest.or((news > 0 && is_first).then_some(sent_at));
            }
            link = next;
        }
        (acked, late)
    }

    /// The last message that was acknowledged selectively.
    pub(crate) fn last_selected<B>(&self, slots: &Slots<B>) -> Option<Seq> {
        let within = slots.list(self.head, self.unsent).take(1 + u64::BITS as usize);
        within.filter_map(|(link, slot)| Some(slot.seq.plus(slots.last_arrived(link)?.into()))).last()
    }

    /// Queue the messages that are lost by this rule to be sent again. `last` is the last message that arrived.
    pub(crate) fn resend_lost<B>(&self, slots: &mut Slots<B>, last: Seq, rule: &LossRule) -> LostMessages {
        let (mut next, mut first_time, mut doubted) = (Time::NEVER, None, false);
        let count = self.resend(slots, usize::MAX, |slot| {
            // Without a tolerance, a message counts as lost by the number of later ones; with one, by its age.
            if last.since(slot.seq) < if rule.tolerance == 0 { LOSS_THRESHOLD } else { 1 } {
                return None;
            }
            if slot.rejected || slot.frame.is_none() || slot.is_to_be_sent() {
                return Some(false);
            }
            let min_age = if slot.times_sent > 1 { rule.min_resend_age } else { 0 };
            let lost_at = slot.sent_at.later(min_age.max(rule.tolerance));
            if lost_at > rule.now {
                next = next.min(lost_at);
                return Some(false);
            }
            if slot.times_sent == 1 {
                first_time = first_time.or(Some((slot.seq, slot.sent_at)));
            }
            doubted |= rule.doubted == Some(slot.seq);
            Some(true)
        });
        LostMessages { count, first_time, has_doubted: doubted, next }
    }

    /// The RTO expired: send the oldest `most` messages again. Returns whether the message in doubt is among them.
    pub(crate) fn resend_oldest<B>(&self, slots: &mut Slots<B>, most: usize, doubted: Option<Seq>) -> bool {
        let mut found = false;
        self.resend(slots, most, |slot| {
            found |= doubted == Some(slot.seq) && slot.frame.is_some();
            Some(!slot.rejected)
        });
        found
    }

    /// Queue messages in flight to be sent again, oldest first: those for which `due` returns `true`, until it returns
    /// `None`.
    pub(crate) fn resend<B>(
        &self,
        slots: &mut Slots<B>,
        most: usize,
        mut due: impl FnMut(&Slot<B>) -> Option<bool>,
    ) -> u32 {
        let mut count = 0;
        let mut link = self.head;
        while link != NO_SLOT && link != self.unsent && (count as usize) < most {
            let slot = &mut slots[link];
            let Some(due) = due(slot) else { break };
            if due && slot.frame.is_some() && !slot.is_to_be_sent() {
                count += slots.left(link).count() as u32;
                slots.send_again(link);
            }
            link = slots[link].next;
        }
        count
    }

    /// Whether this can be the number of a final acknowledgement: neither long acknowledged nor unsent.
    pub(crate) fn is_plausible(&self, before: Seq) -> bool {
        (-(WINDOW as i32)..=self.sent.since(self.unacked)).contains(&before.since(self.unacked))
    }

    /// How many acknowledged messages this final acknowledgement does not count as received.
    pub(crate) fn count_unhandled(&self, ack: &FinalAck) -> u32 {
        let acked = self.unacked.since(ack.before).max(0) as u32;
        // The bits of acknowledged messages beyond `before`.
        let earlier = u64::MAX.checked_shr(u64::BITS + 1 - acked.clamp(1, u64::BITS + 1)).unwrap_or(0);
        acked - (ack.sack & earlier).count_ones()
    }

    /// The flow ended: take out all slots, oldest first, and the number of the first message that is not acknowledged.
    pub(crate) fn drain(&mut self) -> (SlotIndex, Seq) {
        let kept = (self.head, self.unacked);
        *self = SendQueue::new(self.next);
        kept
    }
}

#[cfg(test)]
mod tests;
