//! The two lanes between this process and another one.

use super::{LaneLayout, Line, Pair, Peeked, Receiver, Sender, Shared};
use crate::{Frame, Pool};

/// The most records of a [`Burst`]. Otherwise a flood of frames that the caller drops would keep it in its loop.
const MAX_RECORDS: u32 = 256;

/// A lane to another process, and a lane from it.
#[derive(Debug)]
pub struct Duplex {
    /// The lane to it.
    pub to: Sender,
    /// The lane from it.
    pub from: Receiver,
    pair_to: Pair,
    pair_from: Pair,
    /// Whether the lane was empty at the end of the last burst.
    was_empty: bool,
}

/// A run of [`next`](Duplex::next): the records that it may still take.
#[derive(Debug)]
pub struct Burst(u32);

impl Default for Burst {
    fn default() -> Burst {
        Burst(MAX_RECORDS)
    }
}

/// What [`next`](Duplex::next) could not receive.
#[derive(Debug, Default)]
pub struct LaneCounters {
    /// Invalid records.
    pub nonsense: u64,
    /// How often the pool had no frame for the next one.
    pub no_frame: u64,
}

impl Duplex {
    /// The lanes in this memory. [`connect`](Self::connect) them first.
    ///
    /// # Panics
    /// The memory is too small.
    pub fn new(to: Shared, from: Shared, shape: LaneLayout) -> Duplex {
        let nobody = Pair::new(0, 0);
        let (to, from) = (Sender::new(to, shape), Receiver::new(from, shape));
        Duplex { to, from, pair_to: nobody, pair_from: nobody, was_empty: true }
    }

    /// Start anew with the process of these pairs. Both lanes are empty.
    pub fn connect(&mut self, pair_to: Pair, pair_from: Pair) {
        (self.pair_to, self.pair_from) = (pair_to, pair_from);
        self.offer();
        self.from.forget();
    }

    /// Start another session in the lane to it. Frames that it has not taken are lost.
    pub fn offer(&mut self) {
        self.to.offer(self.pair_to);
    }

    /// Look for the next frame. If the other side offers a session, accept it. [`Peeked::Closed`] means that there is none.
    #[inline(always)]
    pub fn look(&mut self) -> Peeked {
        match self.from.peek() {
            Peeked::Closed => self.look_for_session(),
            found => found,
        }
    }

    #[cold]
    #[inline(never)]
    fn look_for_session(&mut self) -> Peeked {
        if self.accept() { self.from.peek() } else { Peeked::Closed }
    }

    /// Accept the session that the other side offers, if it is a new one.
    #[cold]
    #[inline(never)]
    fn accept(&mut self) -> bool {
        self.from.accept(self.pair_from)
    }

    /// Whether there is nothing to receive and no session to accept.
    #[inline(always)]
    pub fn is_quiet(&mut self) -> bool {
        let is_quiet = self.from.is_quiet();
        if is_quiet {
            self.was_empty = true;
        }
        is_quiet
    }

    /// Copy the next frame into one of the pool, if it fills one line. [`ends_burst`](Self::ends_burst) says whether to go on.
    // Always: it is the loop of each receive.
    #[inline(always)]
    pub fn next_line(&mut self, pool: &Pool) -> Line {
        match self.from.take_line(pool) {
            Line::Nothing => {
                self.was_empty = true;
                Line::Nothing
            }
            found => found,
        }
    }

    /// Copy the next frame into one of the pool. `None`: there is none now, or the burst has ended.
    #[inline]
    pub fn next(&mut self, burst: &mut Burst, pool: &Pool, counters: &mut LaneCounters) -> Option<Frame> {
        if burst.0 == 0 {
            return None;
        }
        match self.next_line(pool) {
            Line::Frame(frame, has_more) => {
                burst.0 = if self.ends_burst(has_more) { 0 } else { burst.0 - 1 };
                Some(frame)
            }
            Line::Nothing => None,
            Line::Other => self.next_any(burst, pool, counters),
        }
    }

    /// Whether the burst ends behind a record. If the lane was empty before, frames probably come one at a time, and then it ends with those
    /// that came together: reading the next line would cost as much as the transfer of a frame.
    #[inline(always)]
    pub fn ends_burst(&mut self, has_more: bool) -> bool {
        !has_more && std::mem::take(&mut self.was_empty)
    }

    #[inline(never)]
    fn next_any(&mut self, burst: &mut Burst, pool: &Pool, counters: &mut LaneCounters) -> Option<Frame> {
        while burst.0 > 0 {
            burst.0 -= 1;
            let length = match self.from.peek() {
                Peeked::Frame(length) => length,
                Peeked::Closed if self.accept() => continue,
                Peeked::Nothing | Peeked::Closed => {
                    self.was_empty = true;
                    return None;
                }
                Peeked::Invalid => {
                    counters.nonsense += 1;
                    return None;
                }
            };
            let Some(mut frame) = pool.take() else {
                counters.no_frame += 1;
                return None;
            };
            let is_whole = self.from.take_frame(&mut frame, length);
            if self.ends_burst(self.from.has_more()) {
                burst.0 = 0;
            }
            if is_whole {
                return Some(frame);
            }
        }
        None
    }

    /// After a long silence: if the lane from the other side was overwritten, refuse its session. Returns whether it was.
    #[cold]
    pub fn refuse_if_diverged(&mut self) -> bool {
        self.from.has_diverged() && self.from.refuse() == Peeked::Invalid
    }

    /// After a long silence: repair lanes that were overwritten. Returns how many.
    #[cold]
    pub fn repair(&mut self) -> u64 {
        let (has_diverged, needs_offer) = (self.refuse_if_diverged(), self.to.needs_offer());
        if needs_offer {
            self.offer();
        }
        u64::from(has_diverged) + u64::from(needs_offer)
    }
}
