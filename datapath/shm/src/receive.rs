//! Frames out of the lanes of others.

use std::sync::atomic::{Ordering::*, fence};

use am_ring::Frame;
use am_ring::lane::Next;
use am_wire::Buffer;

use crate::Shm;
use crate::peer::address;

/// So many records of one lane at most: who floods us with what steering drops must not keep us here.
const STEPS: usize = 256;

/// After so many receives that found nothing the thread may be about to sleep. That costs two calls of the system, and
/// the next sender a third: who spins for an answer is not to get there.
const IDLE: u32 = 512;

/// From then on it looks whether all is well so often: there may be a sleep between two receives.
const IDLE_STILL: u32 = 16;

/// What one look at a lane brings.
enum Step {
    Frame(Frame),
    /// A frame that steering keeps, or that is nobody's.
    Dropped,
    /// A session: look again.
    Began,
    Nothing,
}

impl Shm {
    /// What has arrived; the lane that is looked at first is another each time.
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

    /// There was something.
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
        // Where we wait for frames one at a time, a look behind one that came alone would cost as much as its way here.
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

    /// One record of one lane.
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
        // Asked of our own bytes: nobody can change them between this and what is done with them.
        if is_whole && self.steering.admits(frame.bytes()) { Step::Frame(frame) } else { Step::Dropped }
    }

    /// Nothing more comes from one that has left.
    #[inline]
    fn found_nothing(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        peer.is_empty = true;
        if peer.is_leaving {
            self.gone.note(address(peer.member, peer.birth));
            peer.part();
            // The list is made anew before it is used again.
            self.seen = self.own.header.changes().load(Relaxed).wrapping_sub(1);
        }
    }

    /// Nothing came for long. Look whether all is well, and let the thread sleep.
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
        // Rung for what steering dropped, it may go on to sleep.
        if self.bell.is_armed() && asleep.load(Relaxed) != 0 {
            return;
        }
        self.bell.arm();
        self.count.sleeps += 1;
        asleep.store(1, Relaxed);
        // See `bell.rs`. The caller looks once more.
        fence(SeqCst);
    }

    /// Look who is there.
    #[cold]
    pub(crate) fn refresh(&mut self) {
        let header = &self.own.header;
        self.seen = header.changes().load(Acquire);
        if header.birth(self.own.own).load(Relaxed) != self.own.birth {
            // Somebody wrote over it.
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
                // Somebody wrote over it.
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
