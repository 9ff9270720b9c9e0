//! The sending side.

use crate::sync::{Ordering, Ordering::*, fence};

use super::cursor::Cursor;
use super::shape::{ACCEPTED, LINE, MORE, OFFERED, RELEASED, SKIP, TAIL, behind, lines_of, refusal, word_of};
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
    /// Behind the lines that were written, with those that are not published yet. The run is of lines that are free.
    cursor: Cursor,
    /// Whether each line of the lap before began with a word, which means nothing in this lap. Otherwise a line may have any bytes, and its
    /// word is cleared before the receiver looks at it.
    has_words: bool,
    /// Whether a record became visible at once since the last [`publish`](Self::publish).
    shown: bool,
    /// The first record that is not published yet and, if it is another, the last.
    first: Record,
    last: Record,
    shape: LaneLayout,
    /// The last session that was offered.
    session: u32,
    /// Lines that the receiver had given back at the last look.
    released: u32,
    /// From this position on, each line of the lap before began with a word.
    words_from: u32,
}

/// Where a record's word is, and what it will be. At 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    at: usize,
    word: u32,
}

impl Sender {
    /// The sender of a lane in this memory, of which it uses [`LaneLayout::bytes`]. [`offer`](Self::offer) a session first.
    ///
    /// # Panics
    /// The memory is too small.
    pub fn new(memory: Shared, shape: LaneLayout) -> Sender {
        Sender {
            memory: memory.part(0, shape.bytes()),
            cursor: Cursor::new(&shape, 0, 0),
            has_words: false,
            shown: false,
            first: Record::default(),
            last: Record::default(),
            shape,
            session: 0,
            released: 0,
            words_from: shape.lines(),
        }
    }

    /// Start a session with this pair's receiver. Frames that it has not taken are lost.
    pub fn offer(&mut self, pair: Pair) {
        // Continue the count of starts: the process that had this lane before may have just died.
        let last = if self.session == 0 { self.memory.word(OFFERED).load(Relaxed) } else { self.session };
        let offered = self.memory.word(OFFERED);
        offered.store(0, Relaxed);
        fence(Release); // E, matches F
        self.memory.word(self.shape.word(0)).store(0, Relaxed);
        self.memory.word(TAIL).store(0, Relaxed);
        self.session = pair.after(last);
        offered.store(self.session, Release); // G, matches H
        (self.released, self.first, self.last) = (0, Record::default(), Record::default());
        (self.has_words, self.words_from) = (false, self.shape.lines());
        self.move_to(0);
    }

    /// Go on from this line.
    fn move_to(&mut self, line: u32) {
        // One line stays free: its word may have to be cleared.
        let free = (self.shape.lines() - line.wrapping_sub(self.released)).saturating_sub(1);
        // That line is in this lap.
        let in_lap = self.shape.lines_left(line) - u32::from(!self.has_words);
        self.cursor = Cursor::new(&self.shape, line, free.min(in_lap));
    }

    #[inline]
    fn written(&self) -> u32 {
        self.cursor.position()
    }

    /// Copy a frame in. [`publish`](Self::publish) makes it visible, if it is not already.
    ///
    /// # Errors
    /// There is no room. An empty frame, or one that is too long, never has room.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.push_line(bytes) { Ok(()) } else { self.push_any(bytes) }
    }

    /// Copy a frame in as [`push`](Self::push), if it fills one line, and the line is known to be free. If this returns `false`, there may be
    /// room all the same.
    // Always: it is the common way of each frame that is sent. It makes no call.
    #[inline(always)]
    pub fn push_line(&mut self, bytes: &[u8]) -> bool {
        let at = self.cursor.at();
        let Ok(bytes) = bytes.try_into() else { return false };
        if !self.cursor.has_line() {
            return false;
        }
        // SAFETY: a cursor with a line is at a line of the layout, and the memory is that of the layout.
        unsafe { self.memory.write_line(at, bytes) };
        if !self.has_words {
            // The run does not reach the end of the lap.
            self.write(Record { at: at + LINE, word: 0 }, Relaxed);
        }
        self.show_later(Record { at, word: self.cursor.line_word() });
        self.cursor.pass_line();
        true
    }

    #[inline(never)]
    fn push_any(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let lines = self.reserve(bytes.len())?;
        self.memory.write(self.cursor.at() + behind(bytes.len()), bytes);
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
        let at = self.cursor.at() + behind(length);
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
        if !self.cursor.has_line() {
            self.end_run();
        }
        let (lines, to_end) = (lines_of(len), self.shape.lines_left(self.written()));
        if len == 0 || len > self.shape.longest() {
            return Err(Full);
        }
        let skipped = if lines <= to_end { 0 } else { to_end };
        // One line more, whose word is cleared.
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
        let (lines, to_end) = (lines_of(len), self.shape.lines_left(self.written()));
        self.has_room(lines + 1 + if lines <= to_end { 0 } else { to_end })
    }

    /// How many lines were ever written in this session, and how many of them the receiver has given back. Both wrap.
    pub fn progress(&mut self) -> (u32, u32) {
        self.look();
        (self.written(), self.released)
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

    /// The current record has this length. Its bytes are complete.
    #[inline]
    fn put(&mut self, length: u32, lines: u32) {
        let record = Record { at: self.cursor.at(), word: word_of(self.cursor.lap(), length) };
        let written = self.written().wrapping_add(lines);
        if lines > 1 {
            // Behind its first line it has no words.
            (self.has_words, self.words_from) = (false, written.wrapping_add(self.shape.lines()));
        }
        if !self.has_words {
            self.clear(written);
        }
        self.show_later(record);
        self.has_words |= written.wrapping_sub(self.words_from) < 1 << 31;
        self.move_to(written);
    }

    /// The run has ended: behind it, lines may be free, or begin with words.
    #[cold]
    #[inline(never)]
    fn end_run(&mut self) {
        self.has_words |= self.written().wrapping_sub(self.words_from) < 1 << 31;
        self.move_to(self.written());
    }

    /// Clear the word of a line on which the receiver will look, for a record that is not there yet.
    #[inline]
    fn clear(&self, line: u32) {
        self.write(Record { at: self.shape.word(line), word: 0 }, Relaxed);
    }

    /// The record is complete. It becomes visible with the next [`publish`](Self::publish).
    #[inline(always)]
    fn show_later(&mut self, record: Record) {
        if self.first.at == 0 {
            self.first = record;
        } else {
            self.show_behind(record);
        }
    }

    /// The same, behind other records.
    #[inline]
    fn show_behind(&mut self, record: Record) {
        match std::mem::replace(&mut self.last, record) {
            Record { at: 0, .. } => self.first.word |= MORE,
            // The receiver does not get here before the first is published, which orders this.
            last => self.write(Record { word: last.word | MORE, ..last }, Relaxed),
        }
    }

    #[inline(always)]
    fn write(&self, record: Record, order: Ordering) {
        // SAFETY: `at` is a line of the layout, and the memory is that of the layout.
        unsafe { self.memory.word_within(record.at) }.store(record.word, order);
    }

    /// Make all pushed frames visible to the receiver. Returns whether there were any, with those that became visible before.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let shown = std::mem::take(&mut self.shown);
        if self.first.at == 0 {
            return shown;
        }
        if self.last.at != 0 {
            self.write(self.last, Relaxed);
            self.last.at = 0;
        }
        self.write(self.first, Release); // B, matches C
        self.first.at = 0;
        // For a receiver that has found nothing for long: see `Receiver::has_diverged`.
        // SAFETY: the layout has this word, and the memory is that of the layout.
        unsafe { self.memory.word_within(TAIL) }.store(self.written(), Release);
        // The next records are written soon, and the lines should be in the cache by then.
        self.memory.will_write(self.cursor.at());
        true
    }

    #[inline]
    fn has_room(&mut self, lines: u32) -> bool {
        lines <= self.free() || (self.look() && lines <= self.free())
    }

    #[inline]
    fn free(&self) -> u32 {
        self.shape.lines() - self.written().wrapping_sub(self.released)
    }

    /// Look at what the receiver has given back. Returns `false` if the value is invalid, for now at least.
    fn look(&mut self) -> bool {
        if self.memory.word(ACCEPTED).load(Acquire) != self.session {
            return false; // K, matches J
        }
        let released = self.memory.word(RELEASED).load(Acquire); // A, matches D
        let sane = released.wrapping_sub(self.released) <= self.written().wrapping_sub(self.released);
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
