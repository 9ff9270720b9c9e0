//! The receive path. Each other member pushes frames into its lane to this one, and this member pops them into frames
//! of its own pool. A lane is bounded by its size: when it is full, the sender waits, and after a while loses frames.

use std::sync::atomic::{Ordering::*, fence};

use am_ring::Frame;
use am_ring::lane::Next;
use am_wire::Buffer;

use crate::Shm;
use crate::peer::address;

/// The most records that one call takes from a lane. A flood of frames that steering drops must not keep the thread
/// here.
const STEPS: usize = 256;

/// After this many empty receives in a row the thread may be about to sleep. Arming the FIFO costs two system calls,
/// and the next sender another one. So a thread that spins for an answer should not get there.
const IDLE: u32 = 512;

/// While armed, the lanes are checked again after this many empty receives: the thread may sleep between two of them.
const IDLE_STILL: u32 = 16;

/// The result of reading one record of a lane.
enum Step {
    Frame(Frame),
    /// A frame that steering dropped, or that was not whole.
    Dropped,
    /// A new session has begun: read again.
    Began,
    Nothing,
}

impl Shm {
    /// Receive frames. Each call starts at another lane.
    #[inline]
    pub(crate) fn take(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut taken = self.sweep(budget, each);
        if taken == 0 && budget > 0 {
            self.idle = self.idle.wrapping_add(1);
            if self.idle.is_multiple_of(if self.bell.is_armed() { IDLE_STILL } else { IDLE }) {
                self.rest();
                taken = self.sweep(budget, each);
            }
        }
        if taken > 0 {
            self.count.received += taken as u64;
            self.stir();
        } else {
            self.bell.settle();
        }
        taken
    }

    /// Frames have arrived: reset the idle counter, and disarm the FIFO.
    #[inline]
    fn stir(&mut self) {
        self.idle = 0;
        if self.bell.is_armed() {
            self.own.header.asleep(self.own.own).store(0, Relaxed);
            self.bell.disarm();
        }
    }

    fn sweep(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let lanes = self.present.len();
        let mut taken = 0;
        for step in 0..lanes {
            let at = if self.first + step < lanes { self.first + step } else { self.first + step - lanes };
            taken += self.take_from(self.present[at], budget - taken, each);
        }
        self.first = if self.first + 1 < lanes { self.first + 1 } else { 0 };
        taken
    }

    #[inline]
    fn take_from(&mut self, member: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        // If the lane was empty, frames probably come one at a time. A second read would then cost as much as the
        // frame's transfer.
        let waits = self.peers[member].is_empty;
        let mut taken = 0;
        for _ in 0..STEPS {
            if taken == budget {
                break;
            }
            match self.step(member) {
                Step::Frame(frame) => {
                    taken += 1;
                    each(frame);
                }
                Step::Dropped => (),
                Step::Began => continue,
                Step::Nothing => break,
            }
            if waits && !self.peers[member].from.has_more() {
                break;
            }
        }
        taken
    }

    /// Read one record of one lane.
    #[inline]
    fn step(&mut self, member: usize) -> Step {
        let peer = &mut self.peers[member];
        let len = match peer.from.peek() {
            Next::Frame(len) => len,
            Next::Over if peer.from.accept(peer.pair_from) => return Step::Began,
            Next::Nonsense => {
                self.count.nonsense += 1;
                return Step::Nothing;
            }
            Next::Nothing | Next::Over => {
                self.found_nothing(member);
                return Step::Nothing;
            }
        };
        let Some(mut frame) = self.caps.pool.take() else {
            self.count.no_frame += 1;
            return Step::Nothing;
        };
        peer.is_empty = false;
        let is_whole = frame.space().and_then(|space| space.get_mut(..len)).is_some_and(|space| peer.from.take(space));
        frame.set_len(len);
        // Steering reads our own copy, so no other process can change the bytes between the check and their use.
        if is_whole && self.steering.admits(frame.bytes()) { Step::Frame(frame) } else { Step::Dropped }
    }

    /// The lane is empty. If its member has left, it is done with.
    #[inline]
    fn found_nothing(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        peer.is_empty = true;
        if peer.is_leaving {
            self.gone.note(address(peer.member, peer.birth));
            peer.part();
            // This has the list read again before it is used.
            self.seen = self.own.header.changes().load(Relaxed).wrapping_sub(1);
        }
    }

    /// Nothing has arrived for long. Check the lanes, and allow the thread to sleep.
    #[cold]
    fn rest(&mut self) {
        for member in &self.present {
            let from = &mut self.peers[*member].from;
            if from.is_lost() {
                let _ = from.refuse();
                self.count.nonsense += 1;
            }
        }
        self.mend();
        self.refresh();
        let asleep = self.own.header.asleep(self.own.own);
        // The member was woken for frames that steering dropped, and may go on sleeping.
        if self.bell.is_armed() && asleep.load(Relaxed) != 0 {
            return;
        }
        self.bell.arm();
        self.count.sleeps += 1;
        asleep.store(1, Relaxed);
        // Pairs with the sender's fence, see `bell.rs`. The caller reads the lanes once more.
        fence(SeqCst);
    }

    /// Read the list of members.
    #[cold]
    pub(crate) fn refresh(&mut self) {
        let header = &self.own.header;
        self.seen = header.changes().load(Acquire);
        if header.birth(self.own.own).load(Relaxed) != self.own.birth {
            // Another process has overwritten it.
            header.birth(self.own.own).store(self.own.birth, Release);
            header.tell();
        }
        self.present.clear();
        for peer in self.peers.iter_mut().filter(|peer| peer.member != self.own.own) {
            match header.birth(peer.member).load(Acquire) {
                birth if birth == peer.birth => (),
                birth if birth != 0 && self.own.can_meet(peer.member, birth) => {
                    if peer.birth != 0 {
                        self.gone.note(address(peer.member, peer.birth));
                    }
                    peer.meet(self.own.birth, birth);
                }
                // Another process has overwritten its entry.
                _ if peer.birth != 0 && self.own.is_alive(peer.member, peer.birth) => (),
                _ => peer.is_leaving = true,
            }
            if peer.birth != 0 {
                self.present.push(peer.member);
            }
        }
        self.first = 0;
        debug_assert_eq!(self.caps.address, address(self.own.own, self.own.birth));
    }
}
