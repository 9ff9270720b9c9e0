//! The sending side.

use crate::sync::{Ordering, Ordering::*, fence};

use super::shape::{ACCEPTED, LINE, MORE, OFFERED, RELEASED, SKIP, TAIL, behind, lines_of, refusal};
use super::{LaneLayout, Pair, Receiver, Shared};

/// No room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The result of [`Sender::relay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relayed {
    /// It is in this lane.
    Moved,
    /// This lane has no room for it, and it is lost.
    Full,
    /// The session that it came in closed meanwhile.
    Gone,
}

/// A record of this length is published at once, so that the receiver copies it while the sender copies the next.
const AT_ONCE: u32 = 32;

/// The sending side of a lane. One process at a time has it.
#[derive(Debug)]
pub struct Sender {
    memory: Shared,
    shape: LaneLayout,
    /// The last session that was offered.
    session: u32,
    /// Lines ever written, with those that are not published yet.
    written: u32,
    /// Where the length of the next record is: that of line `written`.
    next: usize,
    /// Lines that the receiver had given back at the last look.
    released: u32,
    /// The first record that is not published yet and, if it is another, the last.
    first: Option<Record>,
    last: Option<Record>,
    /// Whether a record became visible at once since the last [`publish`](Self::publish).
    shown: bool,
}

/// A record without its length.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Where its length is.
    at: usize,
    length: u32,
}

impl Record {
    fn with_more(self) -> Record {
        Record { length: self.length | MORE, ..self }
    }
}

impl Sender {
    /// The sender of a lane in this memory, of which it uses [`LaneLayout::bytes`]. [`offer`](Self::offer) a session first.
    ///
    /// # Panics
    /// The memory is too small.
    pub fn new(memory: Shared, shape: LaneLayout) -> Sender {
        let memory = memory.part(0, shape.bytes());
        let next = shape.word(0);
        Sender { memory, shape, session: 0, written: 0, next, released: 0, first: None, last: None, shown: false }
    }

    /// Start a session with this pair's receiver. Frames that it has not taken are lost.
    pub fn offer(&mut self, pair: Pair) {
        // Continue the count of starts: the process that had this lane before may have just died.
        let last = if self.session == 0 { self.memory.word(OFFERED).load(Relaxed) } else { self.session };
        let offered = self.memory.word(OFFERED);
        offered.store(0, Relaxed);
        fence(Release); // E, matches F
        self.next = self.shape.word(0);
        self.memory.word(self.next).store(0, Relaxed);
        self.memory.word(TAIL).store(0, Relaxed);
        self.session = pair.after(last);
        offered.store(self.session, Release); // G, matches H
        (self.written, self.released, self.first, self.last) = (0, 0, None, None);
    }

    /// Copy a frame in. [`publish`](Self::publish) makes it visible, if it is not already.
    ///
    /// # Errors
    /// There is no room. An empty frame, or one that is too long, never has room.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let lines = self.reserve(bytes.len())?;
        self.memory.write(self.next + behind(bytes.len()), bytes);
        self.commit(bytes.len(), lines);
        Ok(())
    }

    /// Move the frame here that `from` has just found with [`peek`](Receiver::peek), of this length. The caller has copied its first bytes
    /// out with [`read_head`](Receiver::read_head), a multiple of 4: these are what arrives. The rest is copied from lane to lane.
    #[inline]
    pub fn relay(&mut self, from: &mut Receiver, head: &[u8], length: usize) -> Relayed {
        if !from.has_found(length) {
            return Relayed::Gone;
        }
        let Ok(lines) = self.reserve(length) else {
            return if from.leave() { Relayed::Full } else { Relayed::Gone };
        };
        let at = self.next + behind(length);
        self.memory.write(at, head);
        from.read_rest(head.len(), &self.memory, at + head.len());
        if !from.leave() {
            return Relayed::Gone;
        }
        self.commit(length, lines);
        Relayed::Moved
    }

    /// Make room for a frame of this length at the current record. Returns its lines.
    #[inline]
    fn reserve(&mut self, len: usize) -> Result<u32, Full> {
        let (lines, to_end) = (lines_of(len), self.shape.lines_left(self.written));
        if len == 0 || len > self.shape.longest() {
            return Err(Full);
        }
        let skipped = if lines <= to_end { 0 } else { to_end };
        // One line more, whose length is set to 0.
        if !self.has_room(skipped + lines + 1) {
            return Err(Full);
        }
        if skipped > 0 {
            self.put(SKIP, skipped);
        }
        Ok(lines)
    }

    /// The bytes of the current record are complete.
    #[inline]
    fn commit(&mut self, len: usize, lines: u32) {
        self.put(len as u32, lines);
        if lines > AT_ONCE {
            self.publish();
            self.shown = true;
        }
    }

    /// Whether a frame of this length has room.
    #[inline]
    pub fn has_room_for(&mut self, len: usize) -> bool {
        let (lines, to_end) = (lines_of(len), self.shape.lines_left(self.written));
        self.has_room(lines + 1 + if lines <= to_end { 0 } else { to_end })
    }

    /// How many lines were ever written in this session, and how many of them the receiver has given back. Both wrap.
    pub fn progress(&mut self) -> (u32, u32) {
        self.look();
        (self.written, self.released)
    }

    /// How many lines the lane has.
    pub fn lines(&self) -> u32 {
        self.shape.lines()
    }

    /// Whether more than half of the lane is in use.
    #[inline]
    pub fn is_half_full(&mut self) -> bool {
        let half = self.shape.lines() / 2;
        self.free() < half && !(self.look() && self.free() >= half)
    }

    /// Write the length of the current record, whose bytes are complete.
    #[inline]
    fn put(&mut self, length: u32, lines: u32) {
        let written = self.written.wrapping_add(lines);
        let next = self.shape.word(written);
        // SAFETY: what the layout gives is within the memory, which is that of the layout.
        unsafe { self.memory.word_within(next) }.store(0, Relaxed);
        let record = Record { at: self.next, length };
        match (self.first, self.last.replace(record)) {
            (None, _) => (self.first, self.last) = (Some(record), None),
            (Some(first), None) => self.first = Some(first.with_more()),
            // The receiver does not get here before the first is published, which orders this.
            (Some(_), Some(last)) => self.write(last.with_more(), Relaxed),
        }
        (self.written, self.next) = (written, next);
    }

    #[inline]
    fn write(&self, record: Record, order: Ordering) {
        // SAFETY: `at` was `next`, which is always what the layout has given.
        unsafe { self.memory.word_within(record.at) }.store(record.length, order);
    }

    /// Make all pushed frames visible to the receiver. Returns whether there were any, with those that became visible before.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let shown = std::mem::take(&mut self.shown);
        let Some(first) = self.first.take() else { return shown };
        if let Some(last) = self.last.take() {
            self.write(last, Relaxed);
        }
        self.write(first, Release); // B, matches C
        // For a receiver that has found nothing for long: see `Receiver::is_lost`.
        self.memory.word(TAIL).store(self.written, Release);
        // The next length is set to 0 before that record shows, so its line should be in the cache by then.
        self.memory.will_write(self.next + LINE);
        self.memory.will_write(self.next + 2 * LINE);
        true
    }

    #[inline]
    fn has_room(&mut self, lines: u32) -> bool {
        lines <= self.free() || (self.look() && lines <= self.free())
    }

    #[inline]
    fn free(&self) -> u32 {
        self.shape.lines() - self.written.wrapping_sub(self.released)
    }

    /// Look at what the receiver has given back. Returns `false` if the value is invalid, for now at least.
    fn look(&mut self) -> bool {
        if self.memory.word(ACCEPTED).load(Acquire) != self.session {
            return false; // K, matches J
        }
        let released = self.memory.word(RELEASED).load(Acquire); // A, matches D
        let sane = released.wrapping_sub(self.released) <= self.written.wrapping_sub(self.released);
        if sane {
            self.released = released;
        }
        sane
    }

    /// Whether the receiver gave back anything since the last call, or since there was last no room.
    pub fn made_room(&mut self) -> bool {
        let before = self.released;
        self.look() && self.released != before
    }

    /// Whether the session has to be offered again: the receiver refused it, or our word was overwritten.
    #[inline]
    pub fn needs_offer(&self) -> bool {
        let accepted = self.memory.word(ACCEPTED).load(Relaxed);
        accepted == refusal(self.session) || self.memory.word(OFFERED).load(Relaxed) != self.session
    }
}
