//! The side that writes.

use crate::sync::{Ordering, Ordering::*, fence};

use super::shape::{ACCEPTED, MORE, OFFERED, RELEASED, SKIP, TAIL, behind, lines_of};
use super::{Pair, Shape, Shared};

/// No room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A record that long is shown at once, so that the other side copies one while this one copies the next.
const AT_ONCE: u32 = 32;

/// The side of a lane that writes. It belongs to one process at a time.
#[derive(Debug)]
pub struct Sender {
    memory: Shared,
    shape: Shape,
    /// What was offered last.
    session: u32,
    /// Lines ever written, also those not published yet.
    written: u32,
    /// Lines that the receiver has given back, when we last looked.
    released: u32,
    /// Of the records that are not published yet the first and, if it is another, the last.
    first: Option<Record>,
    last: Option<Record>,
}

/// A record whose length is yet to be written.
#[derive(Clone, Copy, Debug)]
struct Record {
    line: u32,
    length: u32,
}

impl Record {
    fn with_more(self) -> Record {
        Record { length: self.length | MORE, ..self }
    }
}

impl Sender {
    /// The sender of a lane in this memory, of which [`Shape::bytes`] are used. First [`offer`](Self::offer) a session.
    ///
    /// # Panics
    /// The memory is too small.
    pub fn new(memory: Shared, shape: Shape) -> Sender {
        let memory = memory.part(0, shape.bytes());
        Sender { memory, shape, session: 0, written: 0, released: 0, first: None, last: None }
    }

    /// Start from nothing, with this pair's receiver. What it has not taken is lost.
    pub fn offer(&mut self, pair: Pair) {
        // The count of starts goes on from what is there: whoever had this lane before may have died just now.
        let last = if self.session == 0 { self.memory.word(OFFERED).load(Relaxed) } else { self.session };
        let offered = self.memory.word(OFFERED);
        offered.store(0, Relaxed);
        fence(Release); // E, matches F
        self.memory.word(self.shape.word(0)).store(0, Relaxed);
        self.memory.word(TAIL).store(0, Relaxed);
        self.session = pair.after(last);
        offered.store(self.session, Release); // G, matches H
        (self.written, self.released, self.first, self.last) = (0, 0, None, None);
    }

    /// Copy a frame in. It is visible after [`publish`](Self::publish) at the latest.
    ///
    /// # Errors
    /// There is no room. A frame that is empty or too long never has any.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let (lines, (_, to_end)) = (lines_of(bytes.len()), self.shape.place(self.written));
        if bytes.is_empty() || bytes.len() > self.shape.longest() {
            return Err(Full);
        }
        let skipped = if lines <= to_end { 0 } else { to_end };
        // One more, whose length is set to 0.
        if !self.has_room(skipped + lines + 1) {
            return Err(Full);
        }
        if skipped > 0 {
            self.put(SKIP, skipped);
        }
        self.memory.write(self.shape.word(self.written) + behind(bytes.len()), bytes);
        self.put(bytes.len() as u32, lines);
        if lines > AT_ONCE {
            self.publish();
        }
        Ok(())
    }

    /// Whether a frame of this length has room.
    #[inline]
    pub fn has_room_for(&mut self, len: usize) -> bool {
        let (lines, (_, to_end)) = (lines_of(len), self.shape.place(self.written));
        self.has_room(lines + 1 + if lines <= to_end { 0 } else { to_end })
    }

    /// The record at hand, whose bytes are written, gets its length.
    #[inline]
    fn put(&mut self, length: u32, lines: u32) {
        let next = self.written.wrapping_add(lines);
        self.memory.word(self.shape.word(next)).store(0, Relaxed);
        let record = Record { line: self.written, length };
        match (self.first, self.last.replace(record)) {
            (None, _) => (self.first, self.last) = (Some(record), None),
            (Some(first), None) => self.first = Some(first.with_more()),
            // The receiver is not here before the first is published, which orders this.
            (Some(_), Some(last)) => self.write(last.with_more(), Relaxed),
        }
        self.written = next;
    }

    #[inline]
    fn write(&self, record: Record, order: Ordering) {
        self.memory.word(self.shape.word(record.line)).store(record.length, order);
    }

    /// Show the receiver everything that has been pushed. Returns whether there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let Some(first) = self.first.take() else { return false };
        if let Some(last) = self.last.take() {
            self.write(last, Relaxed);
        }
        self.write(first, Release); // B, matches C
        // For a receiver that has found nothing for long: see `Receiver::is_lost`.
        self.memory.word(TAIL).store(self.written, Release);
        // The next length is set to 0 before that record shows: its line should be here by then.
        self.memory.will_write(self.shape.word(self.written.wrapping_add(1)));
        self.memory.will_write(self.shape.word(self.written.wrapping_add(2)));
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

    /// Look what the receiver has given back. False where that makes no sense (yet).
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

    /// Whether the receiver gave back anything since this was last asked for, or since there was last no room.
    pub fn has_moved(&mut self) -> bool {
        let before = self.released;
        self.look() && self.released != before
    }

    /// Whether the session has to be offered again: the receiver found nonsense, or somebody wrote over our word.
    #[inline]
    pub fn is_spoiled(&self) -> bool {
        let accepted = self.memory.word(ACCEPTED).load(Relaxed);
        accepted == refusal(self.session) || self.memory.word(OFFERED).load(Relaxed) != self.session
    }
}

/// What a receiver says that will have no more of a session.
#[inline]
pub(super) const fn refusal(session: u32) -> u32 {
    !session
}
