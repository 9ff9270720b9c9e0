//! States on their way, without what a member does with them.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;

use crate::log::{Content, Entry};
use crate::message::{Message, Piece, PieceContent, Stamped};
use crate::mutants::{self, Mutant};
use crate::view::{MemberId, Time};

/// The state is sent again after this time.
pub(crate) const STATE_AGAIN: Time = Time::from_secs(1);
/// Bytes in a microsecond: what arrives more slowly is asked for although it may be on its way.
const SLOWEST: u64 = 10;

/// The time that this number of bytes may take.
pub(crate) fn time_of(bytes: u64) -> Time {
    Time::from_micros(bytes / SLOWEST)
}

/// Where a part of a program's state begins, in the program's own terms. The first one begins at the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// What comes next.
    pub next: u64,
    /// What the state ends before.
    pub end: u64,
}

/// The bytes of a piece. A state that is not longer is one message.
pub(crate) const PIECE: usize = 1 << 20;
/// The longest part of a state that is taken. Its taker puts it together in memory.
pub(crate) const MOST_PART: usize = 1 << 30;
/// Pieces that are on their way to one taker.
pub(crate) const WINDOW: usize = 8;
/// The messages of a piece, at most.
pub(crate) const MESSAGES: usize = 1024;
/// What a message takes besides its payload.
pub(crate) const AROUND: usize = 128;
/// The most bytes of messages that wait for one taker.
pub(crate) const MOST_WAITING: usize = 256 << 20;
/// The most of them.
pub(crate) const MOST_MESSAGES: usize = 1 << 20;
/// Once the taker has all parts, so many bytes of messages may wait, and ever fewer: the last pieces take them.
const MOST_AT_LAST: usize = 512 << 10;
/// Messages that may have got their numbers since the state's end before the group waits for the process: connections and [`EARLY`] have room for them.
pub(crate) const MOST_BEHIND: u64 = 2048;
/// Messages behind a state that arrive before its end does, and their bytes.
const EARLY: usize = 4096;
const EARLY_BYTES: usize = 8 << 20;
/// Pieces that are not acknowledged are sent again after this time and that which their bytes may take, doubled so often.
pub(crate) const AGAIN: Time = Time::from_millis(100);
pub(crate) const MOST_DOUBLED: u32 = 2;
/// The first of them is sent again after this time, and that of the bytes, if others arrive.
pub(crate) const SOON: Time = Time::from_millis(10);
/// A taker that was too slow begins anew after this time, which doubles so often.
pub(crate) const PAUSE: Time = Time::from_secs(1);
pub(crate) const MOST_PAUSES: u32 = 5;

/// What waits for its piece.
#[derive(Debug)]
pub(crate) enum Item {
    /// The program was asked for a part. What follows was delivered afterwards.
    Awaited,
    Part {
        bytes: Bytes,
        is_last: bool,
    },
    Message(Rc<Entry>),
}

/// A state on its way to one taker.
#[derive(Debug)]
pub(crate) struct Giving {
    pub(crate) id: u64,
    pub(crate) is_for_learner: bool,
    pub(crate) queue: VecDeque<Item>,
    /// Bytes of the messages in the queue.
    pub(crate) waiting: usize,
    pub(crate) is_too_late: bool,
    /// Whether a part was asked for. What was delivered before is in the first one.
    pub(crate) has_begun: bool,
    /// Where the program's state goes on. `None`: all of it was asked for.
    pub(crate) place: Option<Place>,
    pub(crate) has_ended: bool,
    /// The bytes of messages that may wait, once the taker has all parts. Of two messages that leave one may come, so that there is an end.
    pub(crate) bound: Option<usize>,
    /// Pieces that are not acknowledged, the first of them with the number `acked`. The taker may have those before `sent`.
    pub(crate) window: VecDeque<Message>,
    pub(crate) acked: u64,
    pub(crate) sent: u64,
    pub(crate) heard_at: Time,
    pub(crate) again_at: Time,
    pub(crate) soon_at: Time,
    /// When a piece of a part was made last: one at a time, so that a beat waits for no more.
    pub(crate) made_at: Option<Time>,
    pub(crate) attempts: u32,
}

/// A taker that was too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) count: u32,
    pub(crate) again_at: Time,
}

impl Giving {
    pub(crate) fn new(id: u64, is_for_learner: bool, now: Time) -> Giving {
        Giving {
            id,
            is_for_learner,
            queue: VecDeque::new(),
            waiting: 0,
            is_too_late: false,
            has_begun: false,
            place: Some(Place::default()),
            has_ended: false,
            bound: None,
            window: VecDeque::new(),
            acked: 0,
            sent: 0,
            heard_at: now,
            again_at: now,
            soon_at: now,
            made_at: None,
            attempts: 0,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.window.len() < WINDOW
    }

    /// The next piece has this content.
    pub(crate) fn push(&mut self, content: PieceContent, now: Time) {
        let nth = self.acked + self.window.len() as u64;
        let is_first = self.window.is_empty();
        self.window.push_back(Message::Piece(Piece { id: self.id, nth, content }));
        if is_first {
            (self.heard_at, self.attempts) = (now, 0);
            self.wait(now);
        }
    }

    /// Wait for an acknowledgement.
    pub(crate) fn wait(&mut self, now: Time) {
        let bytes_of = |message: &Message| match message {
            Message::Piece(Piece { content: PieceContent::Part { bytes, .. }, .. }) => bytes.len(),
            Message::Piece(Piece { content: PieceContent::Messages(messages), .. }) => {
                messages.iter().map(|entry| entry.payload.len()).sum()
            }
            _ => 0,
        };
        let time = time_of(self.window.iter().map(bytes_of).sum::<usize>() as u64);
        self.again_at = now + (AGAIN + time) * (1 << self.attempts);
        self.soon_at = now + SOON + time;
    }

    /// Make pieces of what waits, while there is room for them. Behind the last part a short piece waits for the answer to those before: the last ones
    /// are to be on their way alone, because the taker misses what is sent meanwhile.
    pub(crate) fn make_pieces(&mut self, now: Time) {
        if self.bound.is_none() && self.has_given_all_parts() {
            self.bound = Some(self.waiting.max(MOST_AT_LAST));
        }
        let ends = self.window.is_empty();
        while self.has_room() {
            match self.queue.front() {
                Some(Item::Part { .. }) if self.made_at == Some(now) => return,
                Some(Item::Part { .. }) => {
                    self.made_at = Some(now);
                    if let Some(Item::Part { bytes, is_last }) = self.queue.pop_front() {
                        self.push(PieceContent::Part { bytes, is_last }, now);
                    }
                }
                Some(Item::Message(_)) => {
                    let is_short = self.waiting < PIECE && self.queue.len() < MESSAGES;
                    if is_short && !ends && self.bound.is_some() {
                        return;
                    }
                    let messages = self.pop_messages();
                    self.push(PieceContent::Messages(messages), now);
                }
                Some(Item::Awaited) | None => return,
            }
        }
    }

    pub(crate) fn pop_messages(&mut self) -> Vec<Entry> {
        let (mut messages, mut bytes) = (vec![], 0);
        while messages.len() < MESSAGES
            && bytes < PIECE
            && let Some(Item::Message(entry)) = self.queue.front()
        {
            bytes += entry.payload.len() + AROUND;
            messages.push((**entry).clone());
            self.queue.pop_front();
        }
        self.waiting -= bytes;
        self.bound = self.bound.map(|bound| bound.saturating_sub(bytes / 2));
        messages
    }

    /// The taker has all parts of the state, but for a single piece.
    fn has_given_all_parts(&self) -> bool {
        let is_part =
            |message: &Message| matches!(message, Message::Piece(Piece { content: PieceContent::Part { .. }, .. }));
        let are_taken = || self.window.len() <= 1 || !self.window.iter().any(is_part);
        let have_left = || self.queue.iter().all(|item| matches!(item, Item::Message(_)));
        self.has_begun && self.place.is_none() && are_taken() && have_left()
    }

    /// Whether the group has to send no further messages until the taker has taken some. One that does not answer is not waited for.
    pub(crate) fn holds_back(&self, now: Time, silence: Time) -> bool {
        match self.bound {
            _ if self.has_ended => false,
            Some(bound) => self.waiting > bound && self.heard_at + silence * 2 > now,
            None => {
                let is_much = self.waiting > MOST_WAITING / 2 || self.queue.len() > MOST_MESSAGES / 2;
                is_much && self.heard_at + STATE_AGAIN > now
            }
        }
    }

    /// The part that was asked for is there.
    pub(crate) fn on_part(&mut self, part: &Bytes, next: Option<Place>) {
        let Some(at) = self.queue.iter().position(|item| matches!(item, Item::Awaited)) else { return };
        let behind = self.queue.split_off(at + 1);
        self.queue.pop_back();
        let count = part.len().div_ceil(PIECE).max(1);
        for nth in 0..count {
            let bytes = part.slice(nth * PIECE..part.len().min((nth + 1) * PIECE));
            self.queue.push_back(Item::Part { bytes, is_last: nth + 1 == count });
        }
        self.queue.extend(behind);
        self.place = next;
    }

    /// A message was delivered.
    pub(crate) fn on_delivered(&mut self, entry: &Rc<Entry>) {
        let is_missed =
            matches!(self.queue.front(), Some(Item::Awaited)) && mutants::is_active(Mutant::MissedMeanwhile);
        if self.has_begun && !self.has_ended && !is_missed {
            self.waiting += entry.payload.len() + AROUND;
            self.queue.push_back(Item::Message(entry.clone()));
            self.is_too_late |= self.waiting > MOST_WAITING || self.queue.len() > MOST_MESSAGES;
        }
    }

    /// All that was delivered is in pieces.
    pub(crate) fn is_whole(&self) -> bool {
        self.bound.is_some() && self.queue.is_empty() && !self.has_ended
    }

    /// Whether the taker gets messages with the state.
    pub(crate) fn goes_on(&self) -> bool {
        !self.has_ended
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        let has_more = self.has_room() && matches!(self.queue.front(), Some(Item::Part { .. }));
        let waits = (!self.window.is_empty()).then_some(self.again_at);
        if has_more { self.made_at } else { waits }
    }
}

/// The state that this process takes.
#[derive(Debug)]
pub(crate) struct Taking {
    pub(crate) from: MemberId,
    pub(crate) id: u64,
    /// All pieces before this one are here.
    pub(crate) next: u64,
    /// Pieces behind a missing one.
    pub(crate) behind: BTreeMap<u64, PieceContent>,
    pub(crate) heard_at: Time,
    /// Bytes of the part that has begun.
    part: usize,
    /// Messages of the giver that follow the state, the first ones.
    pub(crate) early: Vec<Stamped>,
    pub(crate) early_bytes: usize,
}

impl Taking {
    pub(crate) fn new(from: MemberId, id: u64, now: Time) -> Taking {
        Taking { from, id, next: 0, behind: BTreeMap::new(), heard_at: now, part: 0, early: vec![], early_bytes: 0 }
    }

    /// Bytes of a part have arrived. Returns whether it may be this long.
    pub(crate) fn has_room_for(&mut self, bytes: usize, is_last: bool) -> bool {
        self.part = self.part.saturating_add(bytes);
        let has_room = self.part <= MOST_PART;
        if is_last {
            self.part = 0;
        }
        has_room
    }

    /// Whether a state with this number takes the place of this one: the same member gives another one, or the member that gave this one leads no more.
    pub(crate) fn is_before(&self, from: MemberId, id: u64) -> bool {
        id >> 32 > self.id >> 32 || self.from == from && id > self.id
    }

    /// A message arrives that may follow the state. Behind one that is not kept none is of use.
    pub(crate) fn keep_early(&mut self, stamped: Stamped) {
        let bytes = if let Content::Here(payload) = &stamped.content { payload.len() } else { 0 };
        self.early_bytes += bytes;
        if self.early.len() < EARLY && self.early_bytes <= EARLY_BYTES {
            self.early.push(stamped);
        }
    }

    pub(crate) fn is_of(&self, from: MemberId, id: u64) -> bool {
        self.from == from && self.id == id || mutants::is_active(Mutant::PieceOfAnotherState)
    }

    pub(crate) fn is_alive(&self, now: Time) -> bool {
        self.heard_at + STATE_AGAIN > now
    }
}
