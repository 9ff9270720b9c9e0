//! The messages in flight, kept until acknowledged, of all flows. A node has one slab, so memory grows with the
//! messages outstanding and not with the number of peers (FM 1.0 §4.5, return to sender).
//!
//! A slot has one frame: with one message, or with several small ones of a flow and class, with consecutive numbers. Such a frame is sent
//! again as it was. Only when some of its messages were acknowledged or returned, [`Partial`] says which are left.
//!
//! Pushed by: `send`. Popped by: acknowledgements and flow ends. Bounded by: `Config::send_frames`. When full: requests
//! are not admitted. Replies always are, because a slot was set aside when their request was delivered. One slot is
//! never given to a request, so that the next request can be delivered.

use std::collections::VecDeque;
use std::{iter, mem};

use am_wire::coalesced::{self, Body, MESSAGE_HEADER};
use am_wire::frame::MIN_FRAME;
use am_wire::{Buffer, Class, Flow, Framing, Kind, Seq};

use crate::FlowId;
use crate::counters::Counters;
use crate::output::Delivery;
use crate::reordering::LOSS_THRESHOLD;
use crate::time::Time;

pub(crate) type SlotIndex = u32;

pub(crate) const NO_SLOT: SlotIndex = SlotIndex::MAX;

/// Slots that only segments and notices of transfers may use: a peer may keep all other messages waiting for them.
pub(crate) const FOR_SEGMENTS: usize = 1;

/// The least slots of a node: one each for a request, a reply and a segment.
pub(crate) const LEAST_SLOTS: usize = 2 + FOR_SEGMENTS;

/// The most messages in a coalesced frame. When the frame is lost, a selective acknowledgement must still cover enough
/// later messages to report the loss.
const MAX_COALESCED: u8 = u64::BITS as u8 + 1 - LOSS_THRESHOLD as u8;

/// A frame in flight. It fills one cache line, which is mostly cold when the acknowledgement comes.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot<B> {
    /// The frame. `None` once all its messages are acknowledged.
    pub(crate) frame: Option<B>,
    pub(crate) flow: Flow,
    pub(crate) class: Class,
    pub(crate) handler: u8,
    pub(crate) words: u8,
    /// [`Kind::Coalesced`] if the frame has several messages. Then handler and words are in the frame.
    pub(crate) kind: Kind,
    /// In the ready queue: the slot may not be freed or queued again.
    pub(crate) queued: bool,
    /// Rejected by the receiver, and in the reject queue.
    pub(crate) rejected: bool,
    pub(crate) leaves: Leaves,
    /// How often it was sent; it stops at 255.
    pub(crate) times_sent: u8,
    /// How often the RTO expired while this was the oldest message in flight, since it was last rejected; and when it did
    /// first.
    pub(crate) timeouts: u8,
    pub(crate) first_timeout_at: Time,
    /// How many messages the frame has.
    pub(crate) count: u8,
    /// Bytes of the frame's body.
    pub(crate) body: u32,
    /// The number of the first message.
    pub(crate) seq: Seq,
    pub(crate) sent_at: Time,
    /// The next slot of the same flow and class, in sequence.
    pub(crate) next: SlotIndex,
}

/// What of a slot is sent when its turn in the ready queue comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    Whole,
    /// Its messages are not all in the same state: see [`Slots::partials`].
    Partly,
    /// It was acknowledged while it was queued, and is freed.
    Not,
}

impl<B> Slot<B> {
    /// Whether its frame leaves with the next outputs.
    #[inline]
    pub(crate) fn is_to_be_sent(&self) -> bool {
        self.queued && self.leaves != Leaves::Not
    }

    /// The frame leaves.
    #[inline]
    pub(crate) fn note_sent(&mut self, counters: &mut Counters) {
        if self.times_sent > 0 {
            counters.retransmitted += u64::from(self.count);
        }
        self.times_sent = self.times_sent.saturating_add(1);
    }

    /// Whether it has one message with a body shorter than this, or several that share its frame.
    #[inline]
    pub(crate) fn has_small(&self, below: usize) -> bool {
        self.count > 1 || (self.body as usize) < below && matches!(self.kind, Kind::Request | Kind::Reply)
    }

    /// A bit for each of its messages.
    fn all(&self) -> u64 {
        u64::MAX >> (u64::BITS - u32::from(self.count))
    }

    /// The number behind its last message.
    #[inline]
    pub(crate) fn end(&self) -> Seq {
        self.seq.plus(self.count.into())
    }

    /// Which of its messages has this number.
    pub(crate) fn place_of(&self, seq: Seq) -> Option<u8> {
        u8::try_from(seq.since(self.seq)).ok().filter(|place| *place < self.count)
    }
}

impl<B: Buffer> Slot<B> {
    /// Room for a further message behind those of the frame, which has not left yet, and whose body has `most` bytes at most. `None` if
    /// there is none.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        framing: Framing,
        most: usize,
        handler: u8,
        words: u8,
        body: usize,
    ) -> Option<&mut [u8]> {
        if self.count == 1 || (self.body as usize) < MIN_FRAME.saturating_sub(framing.body_at()) {
            self.make_room(framing, most, body)?;
        }
        let at = self.body as usize;
        let end = at + MESSAGE_HEADER + body;
        let space = self.frame.as_mut()?.space()?.get_mut(framing.body_at()..)?;
        if end > space.len().min(most) || self.count >= MAX_COALESCED {
            return None;
        }
        let place = coalesced::begin(space, at, handler, words, body)?;
        (self.body, self.count) = (end as u32, self.count + 1);
        Some(place)
    }

    /// Before a message of this length is added to a short frame: its one message becomes the first of several, if both fit. Where the
    /// transport did not take the frame, acknowledgements were written into its padding, which is cleared.
    // Apart, so that the usual way keeps all in registers.
    #[inline(never)]
    fn make_room(&mut self, framing: Framing, most: usize, length: usize) -> Option<()> {
        let (first, headers) = (self.body as usize, if self.count == 1 { 2 } else { 1 });
        let space = self.frame.as_mut()?.space()?.get_mut(framing.body_at()..)?;
        if first + headers * MESSAGE_HEADER + length > space.len().min(most) {
            return None;
        }
        if self.count == 1 {
            space.copy_within(..first, MESSAGE_HEADER);
            coalesced::begin(space, 0, self.handler, self.words, first)?;
            (self.kind, self.handler, self.words) = (Kind::Coalesced(self.class), 0, 0);
            self.body += MESSAGE_HEADER as u32;
        }
        let min = MIN_FRAME.saturating_sub(framing.body_at());
        space.get_mut(self.body as usize..min).into_iter().for_each(|padding| padding.fill(0));
        Some(())
    }

    /// A handle on the frame, up to the end of its body. Before it leaves, the slot's own ends with the first message.
    pub(crate) fn whole(&self, body_at: usize) -> Option<B> {
        let mut frame = self.frame.as_ref()?.share();
        frame.set_len(body_at + self.body as usize);
        Some(frame)
    }

    /// These messages in the body of a coalesced frame.
    #[cold]
    pub(crate) fn run(body: &[u8], place: u8, count: u8) -> Option<&[u8]> {
        let mut items = Body::from_body(body).ok()?.items().skip(place.into()).take(count.into());
        let first = items.next()?;
        let last = items.last().unwrap_or(first);
        body.get(first.at - MESSAGE_HEADER..last.at + last.length)
    }

    /// The message at this place in the frame, whose body begins at `body_at`.
    #[cold]
    pub(crate) fn message(&self, place: u8, flow: FlowId, body_at: usize) -> Option<Delivery<B>> {
        let &Slot { class, kind, handler, words, body, seq, .. } = self;
        let frame = self.whole(body_at)?;
        if kind != Kind::Coalesced(class) {
            let (body_at, seq) = (body_at as u16, seq.0 as u16);
            return Some(Delivery { flow, class, kind, handler, words, body_at, body, seq, behind: 0, frame });
        }
        let item = Body::from_body(frame.bytes().get(body_at..)?).ok()?.items().nth(place.into())?;
        Some(Delivery::coalesced(flow, class, &item, body_at, seq.plus(place.into()), frame))
    }
}

/// What is left of a frame of which some messages were acknowledged or returned. A bit stands for each message, the lowest for the first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial {
    /// Not acknowledged.
    pub(crate) left: u64,
    /// Refused by the receiver, and returned. As long as they are left, their numbers are to be withdrawn.
    pub(crate) returned: u64,
    /// The first that has not left yet, while they leave in several frames.
    pub(crate) next: u8,
}

impl Partial {
    /// How many are not acknowledged.
    pub(crate) fn count(self) -> usize {
        self.left.count_ones() as usize
    }

    /// The next messages that may leave in one frame: the place of the first, and how many. A returned one has one of its own.
    pub(crate) fn pop(&mut self) -> Option<(u8, u8)> {
        let rest = self.left.checked_shr(self.next.into()).filter(|rest| *rest != 0)?;
        let place = self.next + rest.trailing_zeros() as u8;
        let count = ((self.left & !self.returned) >> place).trailing_ones().max(1) as u8;
        self.next = place + count;
        Some((place, count))
    }
}

#[derive(Debug)]
pub(crate) struct Slots<B> {
    pub(crate) slots: Vec<Slot<B>>,
    pub(crate) free: Vec<SlotIndex>,
    /// For each slot that is partial.
    partials: Vec<Partial>,
    /// Messages to send now, from any flow.
    pub(crate) ready: VecDeque<SlotIndex>,
}

impl<B> Slots<B> {
    pub(crate) fn new(count: usize) -> Self {
        let empty = || Slot {
            frame: None,
            flow: Flow::NODE,
            class: Class::Request,
            handler: 0,
            words: 0,
            kind: Kind::Request,
            queued: false,
            rejected: false,
            leaves: Leaves::Whole,
            times_sent: 0,
            timeouts: 0,
            first_timeout_at: Time(0),
            count: 1,
            body: 0,
            seq: Seq(0),
            sent_at: Time(0),
            next: NO_SLOT,
        };
        Slots {
            slots: (0..count).map(|_| empty()).collect(),
            free: (0..count as SlotIndex).rev().collect(),
            partials: vec![Partial::default(); count],
            ready: VecDeque::with_capacity(count),
        }
    }

    /// The slots of a flow's list from `first` on, up to `end`.
    pub(crate) fn list(&self, first: SlotIndex, end: SlotIndex) -> impl Iterator<Item = (SlotIndex, &Slot<B>)> {
        let at = move |link: SlotIndex| (link != NO_SLOT && link != end).then(|| (link, &self[link]));
        iter::successors(at(first), move |(_, slot)| at(slot.next))
    }

    /// Release a slot that is in no flow's list. A queued one is freed when it is popped.
    pub(crate) fn release(&mut self, link: SlotIndex) {
        let slot = &mut self[link];
        (slot.frame, slot.rejected) = (None, false);
        slot.leaves = if slot.queued { Leaves::Not } else { Leaves::Whole };
        if !slot.queued {
            self.free.push(link);
        }
    }

    /// What is left of this slot's messages, if it has a frame.
    pub(crate) fn left(&self, link: SlotIndex) -> Partial {
        let slot = &self[link];
        if slot.leaves == Leaves::Partly {
            return self.partials[link as usize];
        }
        Partial { left: slot.all(), ..Partial::default() }
    }

    /// The same, to change it.
    pub(crate) fn left_mut(&mut self, link: SlotIndex) -> &mut Partial {
        self.partials[link as usize] = self.left(link);
        self[link].leaves = Leaves::Partly;
        &mut self.partials[link as usize]
    }

    /// The messages of this slot that `mask` has are acknowledged. Returns how many were not before. The frame is dropped once all are.
    #[cold]
    pub(crate) fn acknowledge_some(&mut self, link: SlotIndex, mask: u64) -> u32 {
        let left = self.left(link).left;
        let news = left & mask;
        if news == left {
            (self[link].frame, self[link].rejected) = (None, false);
        } else if news != 0 {
            self.left_mut(link).left &= !mask;
        }
        news.count_ones()
    }

    /// How many messages are not acknowledged.
    pub(crate) fn count_left(&self) -> usize {
        let kept = (0..).zip(&self.slots).filter(|(_, slot)| slot.frame.is_some());
        kept.map(|(link, _)| self.left(link).count()).sum()
    }

    /// The place of the last message of this slot that was acknowledged.
    pub(crate) fn last_arrived(&self, link: SlotIndex) -> Option<u8> {
        let slot = &self[link];
        let left = if slot.frame.is_some() { self.left(link).left } else { 0 };
        (slot.all() & !left).checked_ilog2().map(|place| place as u8)
    }

    /// Queue a slot in flight to be sent again.
    pub(crate) fn send_again(&mut self, link: SlotIndex) {
        let slot = &mut self[link];
        let was_queued = mem::replace(&mut slot.queued, true);
        slot.rejected = false;
        if !was_queued {
            self.ready.push_back(link);
        }
    }

    /// This slot was popped from the ready queue, and was acknowledged before.
    pub(crate) fn free_popped(&mut self, link: SlotIndex) {
        self[link].leaves = Leaves::Whole;
        self.free.push(link);
    }
}

impl<B> std::ops::Index<SlotIndex> for Slots<B> {
    type Output = Slot<B>;

    #[inline]
    fn index(&self, link: SlotIndex) -> &Slot<B> {
        &self.slots[link as usize]
    }
}

impl<B> std::ops::IndexMut<SlotIndex> for Slots<B> {
    #[inline]
    fn index_mut(&mut self, link: SlotIndex) -> &mut Slot<B> {
        &mut self.slots[link as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_fills_a_cache_line() {
        // A handle on a frame: a reference, and two words of place and length.
        assert_eq!(size_of::<Slot<(&u8, u64, u64)>>(), 64);
    }
}
