//! The messages in flight, kept until acknowledged, of all flows. A node has one slab, so memory grows with the
//! messages outstanding and not with the number of peers (FM 1.0 §4.5, return to sender).
//!
//! Pushed by: `send`. Popped by: acknowledgements and flow ends. Bounded by: `Config::send_frames`. When full: requests
//! are not admitted. Replies always are, because a slot was set aside when their request was delivered. One slot is
//! never given to a request, so that the next request can be delivered.

use std::collections::VecDeque;
use std::{iter, mem};

use am_wire::{Class, Flow, Kind, Seq};

use crate::time::Time;

pub(crate) type SlotIndex = u32;

pub(crate) const NO_SLOT: SlotIndex = SlotIndex::MAX;

/// Slots that only segments and notices of transfers may use: a peer may keep all other messages waiting for them.
pub(crate) const FOR_SEGMENTS: usize = 1;

/// The least slots of a node: one each for a request, a reply and a segment.
pub(crate) const LEAST_SLOTS: usize = 2 + FOR_SEGMENTS;

/// Whether a slot in the ready queue is skipped, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    No,
    /// The slot's message left in a coalesced frame.
    Coalesced,
    /// The slot's message was acknowledged: the slot is to be freed.
    Acknowledged,
}

/// A message in flight. It fills one cache line, which is mostly cold when the acknowledgement comes.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot<B> {
    /// The frame. `None` once the message is acknowledged.
    pub(crate) frame: Option<B>,
    pub(crate) flow: Flow,
    pub(crate) class: Class,
    pub(crate) handler: u8,
    pub(crate) words: u8,
    /// [`Kind::Reject`] if the message was refused, and its withdrawal is to be sent.
    pub(crate) kind: Kind,
    /// In the ready queue: the slot may not be freed or queued again.
    pub(crate) queued: bool,
    /// Rejected by the receiver, and in the reject queue.
    pub(crate) rejected: bool,
    pub(crate) skip: Skip,
    /// How often it was sent; it stops at 255.
    pub(crate) times_sent: u8,
    /// How often the RTO expired while this was the oldest message in flight, since it was last rejected; and when it did
    /// first.
    pub(crate) timeouts: u8,
    pub(crate) first_timeout_at: Time,
    /// How many messages behind it shared its last frame. A reject is for all of them.
    pub(crate) sharing: u8,
    /// Bytes of words and payload. If it is withdrawn, more than any message has, so it shares no frame.
    pub(crate) body: u32,
    pub(crate) seq: Seq,
    pub(crate) sent_at: Time,
    /// The next slot of the same flow and class, in sequence.
    pub(crate) next: SlotIndex,
}

impl<B> Slot<B> {
    /// Whether its message leaves with the next outputs.
    #[inline]
    pub(crate) fn is_to_be_sent(&self) -> bool {
        self.queued && self.skip == Skip::No
    }

    /// The message leaves, alone unless the caller changes that. Returns whether it left before.
    #[inline]
    pub(crate) fn note_sent(&mut self) -> bool {
        let before = self.times_sent;
        self.times_sent = before.saturating_add(1);
        self.sharing = 0;
        before > 0
    }

    /// A segment of a bulk transfer never shares a frame.
    #[inline]
    pub(crate) fn is_bulk(&self) -> bool {
        matches!(self.kind, Kind::Put | Kind::Get)
    }

    /// The message was returned. Its number is still to be withdrawn, in a frame of its own.
    pub(crate) fn withdraw(&mut self) {
        (self.kind, self.body) = (Kind::Reject, u32::MAX);
    }
}

#[derive(Debug)]
pub(crate) struct Slots<B> {
    pub(crate) slots: Vec<Slot<B>>,
    pub(crate) free: Vec<SlotIndex>,
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
            skip: Skip::No,
            times_sent: 0,
            timeouts: 0,
            first_timeout_at: Time(0),
            sharing: 0,
            body: 0,
            seq: Seq(0),
            sent_at: Time(0),
            next: NO_SLOT,
        };
        Slots {
            slots: (0..count).map(|_| empty()).collect(),
            free: (0..count as SlotIndex).rev().collect(),
            ready: VecDeque::with_capacity(count),
        }
    }

    /// The slots of a flow's list from `first` on, up to `end`.
    pub(crate) fn list(&self, first: SlotIndex, end: SlotIndex) -> impl Iterator<Item = (SlotIndex, &Slot<B>)> {
        let at = move |link: SlotIndex| (link != NO_SLOT && link != end).then(|| (link, &self[link]));
        iter::successors(at(first), move |(_, slot)| at(slot.next))
    }

    /// Release a slot that is in no flow's list. A queued one is freed when it is popped.
    #[inline]
    pub(crate) fn release(&mut self, link: SlotIndex) {
        let slot = &mut self[link];
        slot.frame = None;
        slot.rejected = false;
        if slot.queued {
            slot.skip = Skip::Acknowledged;
        } else {
            self.free.push(link);
        }
    }

    /// Queue a slot in flight to be sent again.
    pub(crate) fn send_again(&mut self, link: SlotIndex) {
        let slot = &mut self[link];
        let was_queued = mem::replace(&mut slot.queued, true);
        (slot.skip, slot.rejected) = (Skip::No, false);
        if !was_queued {
            self.ready.push_back(link);
        }
    }

    /// This slot was popped from the ready queue, and its message is not to be sent.
    #[cold]
    pub(crate) fn skip_popped(&mut self, link: SlotIndex) {
        if mem::replace(&mut self[link].skip, Skip::No) == Skip::Acknowledged {
            self.free.push(link);
        }
    }

    /// The message in this slot, if it may share a frame with the one before it: it waits to be sent, and its body is
    /// shorter than `below`.
    #[inline]
    pub(crate) fn coalescable(&mut self, link: SlotIndex, below: usize) -> Option<&mut Slot<B>> {
        let slot = self.slots.get_mut(link as usize)?;
        (slot.is_to_be_sent() && !slot.is_bulk() && (slot.body as usize) < below && slot.frame.is_some())
            .then_some(slot)
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
