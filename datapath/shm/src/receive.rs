//! The receive path. Each other member pushes frames into its lane to this one, and this member copies them into frames of
//! its own pool. A lane is bounded by its size: when it is full, the sender waits, and after a while drops frames.

use std::sync::atomic::{Ordering::*, fence};

use am_ring::Frame;
use am_ring::lane::Peeked;
use am_wire::{Address, AddressSet, Buffer};

use crate::link::Shm;

/// The most records that one call takes from a lane. Otherwise a flood of frames that steering drops would keep the thread
/// in this loop.
const MAX_RECORDS_PER_LANE: usize = 256;

/// A thread that spins checks lanes and members after this many empty receives in a row.
const EMPTY_RECEIVES_TO_CHECK: u32 = 512;

/// The most addresses behind other members that this one learns. Frames to further addresses are flooded.
const MAX_ADDED_ADDRESSES: usize = 16 * AddressSet::MAX;

/// The result of reading one record of a lane.
enum Step {
    Frame(Frame),
    /// A frame that steering dropped, or that was not whole.
    Dropped,
    /// The sender has begun a new session in this lane: read again.
    NewSession,
    Nothing,
}

impl Shm {
    /// Receive frames. Each call starts at another lane.
    #[inline]
    pub(crate) fn receive_frames(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut taken = self.receive_from_lanes(budget, each);
        if taken == 0 && budget > 0 {
            self.empty_receives = self.empty_receives.wrapping_add(1);
            if self.empty_receives.is_multiple_of(EMPTY_RECEIVES_TO_CHECK) {
                self.check_lanes();
                taken = self.receive_from_lanes(budget, each);
            }
        }
        if taken > 0 {
            self.counters.received += taken as u64;
            self.on_received();
        }
        taken
    }

    /// Frames have arrived, so the thread does not sleep.
    #[inline]
    fn on_received(&mut self) {
        self.empty_receives = 0;
        if self.waker.is_armed {
            self.membership.header.asleep(self.membership.member).store(0, Relaxed);
            self.waker.is_armed = false;
        }
    }

    fn receive_from_lanes(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let lanes = self.present.len();
        let mut taken = 0;
        for step in 0..lanes {
            let at =
                if self.first_lane + step < lanes { self.first_lane + step } else { self.first_lane + step - lanes };
            taken += self.receive_from_lane(self.present[at], budget - taken, each);
        }
        self.first_lane = if self.first_lane + 1 < lanes { self.first_lane + 1 } else { 0 };
        taken
    }

    #[inline]
    fn receive_from_lane(&mut self, member: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        // If the lane was empty, frames probably come one at a time. Reading the next line would then cost as much as the
        // transfer of the frame.
        let waits = self.peers[member].is_empty;
        let mut taken = 0;
        for _ in 0..MAX_RECORDS_PER_LANE {
            if taken == budget {
                break;
            }
            match self.read_record(member) {
                Step::Frame(frame) => {
                    taken += 1;
                    each(frame);
                }
                Step::Dropped => (),
                Step::NewSession => continue,
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
    fn read_record(&mut self, member: usize) -> Step {
        let peer = &mut self.peers[member];
        let len = match peer.from.peek() {
            Peeked::Frame(len) => len,
            Peeked::Closed if peer.from.accept(peer.pair_from) => return Step::NewSession,
            Peeked::Invalid => {
                self.counters.nonsense += 1;
                return Step::Nothing;
            }
            Peeked::Nothing | Peeked::Closed => {
                self.on_empty_lane(member);
                return Step::Nothing;
            }
        };
        let Some(mut frame) = self.caps.pool.take() else {
            self.counters.no_frame += 1;
            return Step::Nothing;
        };
        peer.is_empty = false;
        let is_whole = frame.space().and_then(|space| space.get_mut(..len)).is_some_and(|space| peer.from.take(space));
        frame.set_len(len);
        // Steering reads this member's copy, so no other process can change the bytes between the check and their use.
        let mut claimed = None;
        let is_ours = is_whole && self.steering.admits_from(frame.bytes(), |source| claimed = Some(source));
        if let Some(source) = claimed {
            self.learn_address(source, member);
        }
        if is_ours { Step::Frame(frame) } else { Step::Dropped }
    }

    /// A control frame from this address arrived in a member's lane. Several nodes may be behind one member.
    #[cold]
    fn learn_address(&mut self, source: Address, member: usize) {
        let generation = self.peers[member].generation;
        if self.peers[member].has_address(source) {
            return;
        }
        if self.added_addresses.len() >= MAX_ADDED_ADDRESSES {
            let peers = &self.peers;
            self.added_addresses.retain(|_, (member, generation)| peers[*member].is_run(*generation));
        }
        let is_another = |(member, generation): &(usize, u32)| self.peers[*member].is_run(*generation);
        let is_taken = self.added_addresses.get(&source).is_some_and(is_another);
        if !is_taken && self.added_addresses.len() < MAX_ADDED_ADDRESSES {
            self.added_addresses.insert(source, (member, generation));
        }
    }

    /// The lane is empty. If its member has left, this ends the connection with it.
    #[inline]
    fn on_empty_lane(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        peer.is_empty = true;
        if peer.is_leaving {
            self.part_from(member);
        }
    }

    /// All frames of a member that left were received.
    #[cold]
    #[inline(never)]
    fn part_from(&mut self, member: usize) {
        self.peers[member].disconnect(&self.membership, &mut self.departed);
        // Make the next call read the list again.
        self.seen_changes = self.membership.header.changes().load(Relaxed).wrapping_sub(1);
    }

    /// Nothing has arrived for a while. Check the lanes and the members.
    #[cold]
    fn check_lanes(&mut self) {
        for at in 0..self.present.len() {
            let member = self.present[at];
            let from = &mut self.peers[member].from;
            if from.has_diverged() {
                let _ = from.refuse();
                self.counters.nonsense += 1;
            }
            self.restart_if_damaged(member);
        }
        self.refresh_members();
    }

    /// The thread is about to sleep: ask senders to wake it. The caller reads the lanes once more.
    #[cold]
    pub(crate) fn before_sleep(&mut self) {
        self.check_lanes();
        let asleep = self.membership.header.asleep(self.membership.member);
        // This member is still armed: it woke only for frames that steering dropped.
        if self.waker.is_armed && asleep.load(Relaxed) != 0 {
            return;
        }
        self.waker.arm();
        self.counters.sleeps += 1;
        asleep.store(1, Relaxed);
        // Pairs with the sender's fence, see `waker.rs`.
        fence(SeqCst);
    }
}
