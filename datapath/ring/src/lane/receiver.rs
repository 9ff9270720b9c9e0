//! The receiving side.

use am_wire::Buffer;

use crate::Frame;
use crate::sync::{Ordering::*, fence};

use super::shape::{ACCEPTED, MORE, OFFERED, RELEASED, SKIP, TAIL, behind, lines_of, refusal};
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

/// The receiving side of a lane. One process at a time has it.
#[derive(Debug)]
pub struct Receiver {
    memory: Shared,
    shape: LaneLayout,
    /// The last session that was accepted.
    session: u32,
    /// Whether it is open.
    open: bool,
    /// Whether another record came with the last one.
    has_more: bool,
    /// Lines ever read. From `released` on, the sender cannot use them yet.
    read: u32,
    /// Where the length of the next record is: that of line `read`.
    next: usize,
    /// The length of the frame that was found there, 0 if none was yet; and its lines.
    found: (u32, u32),
    released: u32,
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
        let next = shape.word(0);
        Receiver {
            memory,
            shape,
            session: 0,
            open: false,
            has_more: false,
            read: 0,
            next,
            found: (0, 0),
            released: 0,
            quiet: (0, 0),
        }
    }

    /// Forget the past, for another process.
    pub fn forget(&mut self) {
        (self.session, self.open, self.found) = (0, false, (0, 0));
    }

    /// Accept the offered session if it is this pair's, and new. Returns whether a session is open.
    #[inline]
    pub fn accept(&mut self, pair: Pair) -> bool {
        let offered = self.memory.word(OFFERED).load(Acquire); // H, matches G
        if self.open && offered == self.session {
            return true;
        }
        self.open = pair.has(offered) && offered != self.session;
        if self.open {
            (self.session, self.released) = (offered, 0);
            self.move_to(0);
            self.memory.word(RELEASED).store(0, Relaxed);
            self.memory.word(ACCEPTED).store(offered, Release); // J, matches K
        }
        self.open
    }

    /// Look for the next frame.
    // Always: where a crate has several callers, the compiler would make it a call, for each message that is received.
    #[inline(always)]
    pub fn peek(&mut self) -> Peeked {
        if !self.open {
            return Peeked::Closed;
        }
        let mut word = self.length();
        if word == 0 {
            return if self.check_session() { Peeked::Nothing } else { Peeked::Closed };
        }
        if word & !MORE == SKIP {
            self.move_to(self.read.wrapping_add(self.shape.lines_left(self.read)));
            word = self.length();
        }
        let length = word & !MORE;
        self.has_more = word & MORE != 0;
        if length == 0 {
            return if self.check_session() { Peeked::Nothing } else { Peeked::Closed };
        }
        let lines = lines_of(length as usize);
        if length as usize > self.shape.longest() || lines > self.shape.lines_left(self.read) {
            return if self.check_session() { self.refuse() } else { Peeked::Closed };
        }
        self.found = (length, lines);
        Peeked::Frame(length as usize)
    }

    /// Whether [`peek`](Self::peek) would find nothing and change nothing: one look at an idle lane.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.open && self.length() == 0 && self.memory.word(OFFERED).load(Relaxed) == self.session
    }

    /// Whether another frame came with the last one. If not, a look costs a cache line that the sender has just
    /// written, and can wait.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Up to which line this side has read, and up to which the sender has written. Both wrap, and start anew with each session.
    pub fn positions(&self) -> (u32, u32) {
        (self.read, self.memory.word(TAIL).load(Acquire))
    }

    #[inline]
    fn length(&self) -> u32 {
        // SAFETY: `next` is always what the layout has given, and the memory is that of the layout.
        unsafe { self.memory.word_within(self.next) }.load(Acquire) // C, matches B
    }

    #[inline]
    fn move_to(&mut self, line: u32) {
        (self.read, self.next, self.found) = (line, self.shape.word(line), (0, 0));
    }

    /// Copy the frame out that [`peek`](Self::peek) has just found; `into` has the length that it gave. Returns `false`
    /// if the session closed meanwhile: then the bytes mean nothing.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        if !self.has_found(into.len()) {
            return false;
        }
        self.memory.read(self.next + behind(into.len()), into);
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
            self.memory.read(self.next + behind(length), into);
        }
        has_head
    }

    /// Copy the bytes from `first` on, of the frame that was found, into another lane.
    #[inline]
    pub(super) fn read_rest(&self, first: usize, to: &Shared, at: usize) {
        let length = self.found.0 as usize;
        if first < length {
            self.memory.copy_to(self.next + behind(length) + first, length - first, to, at);
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
        self.move_to(self.read.wrapping_add(self.found.1));
        // Lazily, so that the sender's look at it costs a line once in many frames.
        if self.read.wrapping_sub(self.released) >= self.shape.lines() / 8 {
            self.release();
        }
        true
    }

    /// Give back the lines that were read.
    fn release(&mut self) {
        self.released = self.read;
        self.memory.word(RELEASED).store(self.released, Release); // D, matches A
    }

    #[inline]
    fn check_session(&mut self) -> bool {
        self.open = self.memory.word(OFFERED).load(Relaxed) == self.session;
        self.open
    }

    /// Refuse the session. The sender sees this, and begins another.
    pub fn refuse(&mut self) -> Peeked {
        (self.open, self.found) = (false, (0, 0));
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
        if self.length() != 0 {
            return false;
        }
        self.confirm();
        let (before, read) = std::mem::replace(&mut self.quiet, (tail, self.read));
        let is_ahead = (1..=self.shape.lines()).contains(&tail.wrapping_sub(self.read));
        // Being behind is no contradiction: a length shows before the tail does. The next tail that shows is not behind
        // it.
        let is_behind = tail != self.read && read == self.read && before != tail;
        (is_ahead || is_behind) && self.check_session()
    }
}
