//! The receiving side.

use am_wire::Buffer;

use crate::sync::{Ordering::*, fence};
use crate::{Frame, Pool};

use super::cursor::Cursor;
use super::shape::{
    ACCEPTED, MORE, OFFERED, ONE_LINE, RELEASED, SKIP, TAIL, behind, is_none, lines_of, parts_of, refusal, word_of,
};
use super::{LaneLayout, Pair, Shared};

/// The result of [`Receiver::peek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// Nothing now.
    Nothing,
    /// A frame of this many bytes, 1 to the longest: [`Receiver::take`] it.
    Frame(usize),
    /// The session is closed, or none has begun: [`Receiver::accept`] another.
    Closed,
    /// The record is invalid. The session is [refused](Receiver::refuse), and the sender has to begin another.
    Invalid,
}

/// The result of [`Duplex::next_line`](super::Duplex::next_line).
#[derive(Debug)]
pub enum Line {
    /// A frame of one line, and whether another one came with it.
    Frame(Frame, bool),
    /// There is nothing.
    Nothing,
    /// Anything else: [`Duplex::next`](super::Duplex::next).
    Other,
}

/// The receiving side of a lane. One process at a time has it.
#[derive(Debug)]
pub struct Receiver {
    memory: Shared,
    shape: LaneLayout,
    /// The last session that was accepted.
    session: u32,
    /// Whether it is open.
    open: bool,
    /// Whether another record came with the last one that [`peek`](Self::peek) found.
    has_more: bool,
    /// Behind the lines that were read. The run ends where lines are given back. It is empty while no session is open.
    cursor: Cursor,
    /// The length of the frame that was found there, 0 if none was yet; and its lines.
    found: (u32, u32),
    /// From this line on, the sender cannot use them yet.
    released: u32,
    /// Lines were given back since the last [`made_room`](Self::made_room).
    made_room: bool,
    /// The positions of both sides at the last check after a long silence.
    quiet: (u32, u32),
}

impl Receiver {
    /// The receiver of a lane in this memory, of which it uses [`LaneLayout::bytes`].
    ///
    /// # Panics
    /// The memory is too small.
    pub fn new(memory: Shared, shape: LaneLayout) -> Receiver {
        let memory = memory.part(0, shape.bytes());
        Receiver {
            memory,
            shape,
            session: 0,
            open: false,
            has_more: false,
            cursor: Cursor::new(&shape, 0, 0),
            found: (0, 0),
            released: 0,
            made_room: false,
            quiet: (0, 0),
        }
    }

    /// Forget the past, for another process.
    pub fn forget(&mut self) {
        self.session = 0;
        self.close();
    }

    /// Accept the offered session if it is this pair's, and new. Returns whether a session is open.
    #[inline]
    pub fn accept(&mut self, pair: Pair) -> bool {
        let offered = self.memory.word(OFFERED).load(Acquire); // H, matches G
        if self.open && offered == self.session {
            return true;
        }
        if !pair.has(offered) || offered == self.session {
            self.close();
            return false;
        }
        (self.session, self.released, self.open) = (offered, 0, true);
        self.move_to(0);
        self.memory.word(RELEASED).store(0, Relaxed);
        self.memory.word(ACCEPTED).store(offered, Release); // J, matches K
        true
    }

    fn close(&mut self) {
        (self.open, self.found) = (false, (0, 0));
        self.cursor = Cursor::new(&self.shape, self.read(), 0);
    }

    /// Lines ever read in this session.
    #[inline]
    fn read(&self) -> u32 {
        self.cursor.position()
    }

    /// Copy the next frame into one of the pool, if it fills one line, as most do, and does not end the run. Otherwise, nothing has changed.
    /// Returns with the frame whether another one came with it.
    #[inline(always)]
    pub(super) fn take_line(&mut self, pool: &Pool) -> Line {
        let rest = self.rest();
        if !self.cursor.has_lines() {
            return Line::Other;
        }
        if rest & !MORE != 0 {
            return if is_empty(rest) && self.is_offered() { Line::Nothing } else { Line::Other };
        }
        // SAFETY: this side's cursor is always at a line of the layout, and the memory is that of the layout.
        let copy = |bytes: &mut [u8; ONE_LINE]| unsafe { self.memory.read_line(self.cursor.at(), bytes) };
        let Some(frame) = pool.take_filled(copy) else { return Line::Other };
        fence(Acquire); // F, matches E
        if !self.is_offered() {
            return Line::Other;
        }
        self.found = (0, 0);
        self.cursor.pass_line();
        Line::Frame(frame, rest != 0)
    }

    /// Look for the next frame.
    // Always: where a crate has several callers, the compiler would make it a call, for each message that is received.
    #[inline(always)]
    pub fn peek(&mut self) -> Peeked {
        if !self.open {
            return Peeked::Closed;
        }
        let (mut length, mut has_more) = parts_of(self.word(), self.cursor.lap());
        if length == SKIP {
            self.move_to(self.read().wrapping_add(self.shape.lines_left(self.read())));
            (length, has_more) = parts_of(self.word(), self.cursor.lap());
        }
        self.has_more = has_more;
        if length == 0 {
            return if self.check_session() { Peeked::Nothing } else { Peeked::Closed };
        }
        let lines = lines_of(length as usize);
        if length as usize > self.shape.longest() || lines > self.shape.lines_left(self.read()) {
            return if self.check_session() { self.refuse() } else { Peeked::Closed };
        }
        self.found = (length, lines);
        Peeked::Frame(length as usize)
    }

    /// Whether there is no frame, and no session to accept: one look at an idle lane.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        // If it is closed, the session that it knows is over, and nothing comes before another is offered.
        is_empty(self.rest()) && self.is_offered()
    }

    /// Whether another frame came with the last one that [`peek`](Self::peek) found. If not, a look costs a cache line that the sender has just
    /// written, and can wait.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Up to which line this side has read, and up to which the sender has written. Both wrap, and start anew with each session.
    pub fn positions(&self) -> (u32, u32) {
        (self.read(), self.memory.word(TAIL).load(Acquire))
    }

    #[inline(always)]
    fn word(&self) -> u32 {
        // SAFETY: this side's cursor is always at a line of the layout, and the memory is that of the layout.
        unsafe { self.memory.word_within(self.cursor.at()) }.load(Acquire) // C, matches B
    }

    /// What the word here has else than that of a frame of one line.
    #[inline(always)]
    fn rest(&self) -> u32 {
        self.word() ^ self.cursor.line_word()
    }

    /// Go on from this line.
    fn move_to(&mut self, line: u32) {
        let unreleased = line.wrapping_sub(self.released);
        self.cursor = Cursor::new(&self.shape, line, self.shape.lines_to_release().saturating_sub(unreleased));
        self.found = (0, 0);
    }

    /// The run has ended: give back lines if it is time.
    #[cold]
    #[inline(never)]
    fn end_run(&mut self) {
        // Lazily, so that the sender's look at it costs a line once in many frames.
        if self.read().wrapping_sub(self.released) >= self.shape.lines_to_release() {
            self.release();
        }
        self.move_to(self.read());
    }

    /// Copy the frame out that [`peek`](Self::peek) has just found; `into` has the length that it gave. Returns `false`
    /// if the session closed meanwhile: then the bytes mean nothing.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        if !self.has_found(into.len()) {
            return false;
        }
        self.memory.read(self.cursor.at() + behind(into.len()), into);
        self.leave()
    }

    /// As [`take`](Self::take), into a frame of a pool.
    #[inline]
    pub fn take_frame(&mut self, into: &mut Frame, length: usize) -> bool {
        let is_whole = into.space().and_then(|space| space.get_mut(..length)).is_some_and(|space| self.take(space));
        into.set_len(length);
        is_whole
    }

    /// Copy the first bytes out of the frame that [`peek`](Self::peek) has just found, of this length. Returns `false` if there are fewer.
    /// Whether they mean something, [`relay`](super::Sender::relay) finds out.
    #[inline]
    pub fn read_head(&self, into: &mut [u8], length: usize) -> bool {
        let has_head = into.len() <= length && self.has_found(length);
        if has_head {
            self.memory.read(self.cursor.at() + behind(length), into);
        }
        has_head
    }

    /// Copy the bytes from `first` on, of the frame that was found, into another lane.
    #[inline]
    pub(super) fn read_rest(&self, first: usize, to: &Shared, at: usize) {
        let length = self.found.0 as usize;
        if first < length {
            self.memory.copy_to(self.cursor.at() + behind(length) + first, length - first, to, at);
        }
    }

    #[inline]
    pub(super) fn has_found(&self, length: usize) -> bool {
        self.found.0 as usize == length && length > 0
    }

    /// Go on behind the frame that was found, and copied. Returns `false` if the session closed meanwhile, as [`take`](Self::take).
    #[inline]
    pub(super) fn leave(&mut self) -> bool {
        fence(Acquire); // F, matches E
        if !self.check_session() {
            return false;
        }
        self.move_to(self.read().wrapping_add(self.found.1));
        if !self.cursor.has_line() {
            self.end_run();
        }
        true
    }

    /// Give back the lines that were read.
    fn release(&mut self) {
        (self.released, self.made_room) = (self.read(), true);
        self.memory.word(RELEASED).store(self.released, Release); // D, matches A
    }

    /// Whether lines were given back since the last call.
    #[inline]
    pub fn made_room(&mut self) -> bool {
        std::mem::take(&mut self.made_room)
    }

    #[inline]
    fn check_session(&mut self) -> bool {
        if self.open && !self.is_offered() {
            self.close();
        }
        self.open
    }

    #[inline(always)]
    fn is_offered(&self) -> bool {
        // SAFETY: the layout has this word, and the memory is that of the layout.
        unsafe { self.memory.word_within(OFFERED) }.load(Relaxed) == self.session
    }

    /// Refuse the session. The sender sees this, and begins another.
    pub fn refuse(&mut self) -> Peeked {
        self.close();
        self.memory.word(ACCEPTED).store(refusal(self.session), Release);
        Peeked::Invalid
    }

    /// Write again what this side has written, because another process may have overwritten it: the session, and the lines that were read.
    /// It gives back all of these. For the caller from time to time, so that the sender does not find the lane full for ever.
    pub fn confirm(&mut self) {
        if self.open {
            self.release();
            self.memory.word(ACCEPTED).store(self.session, Release);
        }
    }

    /// Whether the sender has moved on while nothing arrives here: a length or a position was overwritten. Call it
    /// after a long silence in which [`peek`](Self::peek) found nothing. It also gives back all lines that were read.
    pub fn has_diverged(&mut self) -> bool {
        let tail = self.memory.word(TAIL).load(Acquire);
        if !self.open {
            // Another process may have overwritten the refusal.
            if self.session != 0 && self.memory.word(OFFERED).load(Relaxed) == self.session {
                self.refuse();
            }
            return false;
        }
        if !is_empty(self.rest()) {
            return false;
        }
        self.confirm();
        let now = (tail, self.read());
        let (before, read) = std::mem::replace(&mut self.quiet, now);
        let is_ahead = (1..=self.shape.lines()).contains(&tail.wrapping_sub(self.read()));
        // Being behind is no contradiction: a length shows before the tail does. The next tail that shows is not behind
        // it.
        let is_behind = tail != self.read() && read == self.read() && before != tail;
        (is_ahead || is_behind) && self.check_session()
    }
}

/// Whether this [rest](Receiver::rest) says that no record is here. The lap is out of it, and the length of a line is in it.
#[inline(always)]
const fn is_empty(rest: u32) -> bool {
    is_none(rest ^ word_of(0, ONE_LINE as u32))
}
