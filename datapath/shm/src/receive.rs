//! The receive path. Each other member pushes frames into its lane to this one, and this member copies them into frames of
//! its own pool. A lane is bounded by its size: when it is full, the sender waits, and after a while drops frames.

use std::sync::atomic::Ordering::*;

use am_ring::Frame;
use am_wire::{Address, AddressSet, Buffer};

use crate::link::Shm;
use crate::peer::Peer;

/// A thread that spins checks lanes and members after this many empty receives in a row.
const EMPTY_RECEIVES_TO_CHECK: u32 = 512;

/// The most addresses behind other members that this one learns. Frames to further addresses are flooded.
const MAX_ADDED_ADDRESSES: usize = 16 * AddressSet::MAX;

impl Shm {
    /// Receive frames. Each call starts at another lane.
    #[inline]
    pub(crate) fn receive_frames(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut taken = self.receive_from_lanes(budget, each);
        if taken == 0 && budget > 0 {
            self.empty_receives = self.empty_receives.wrapping_add(1);
            if self.empty_receives.is_multiple_of(EMPTY_RECEIVES_TO_CHECK) {
                taken = self.check_and_receive(budget, each);
            }
        }
        if taken > 0 {
            self.counters.received += taken as u64;
            self.empty_receives = 0;
            // The thread does not sleep.
            if self.waker.is_armed {
                self.waker.is_armed = false;
                self.membership.header.asleep(self.membership.member).clear();
            }
        }
        taken
    }

    #[inline(always)]
    fn receive_from_lanes(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let lanes = self.present.len();
        let next = |at: usize| if at + 1 < lanes { at + 1 } else { 0 };
        let (mut at, mut taken) = (self.first_lane, 0);
        for _ in 0..lanes {
            let member = self.present[at];
            if !self.peers[member].is_quiet() {
                taken += self.receive_from(member, budget - taken, each);
            }
            at = next(at);
        }
        self.first_lane = next(self.first_lane);
        taken
    }

    /// Receive from one member.
    #[inline(never)]
    fn receive_from(&mut self, member: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut burst = self.peers[member].lanes.burst();
        let mut taken = 0;
        while taken < budget
            && let Some(frame) = self.peers[member].lanes.next(&mut burst, &self.caps.pool, &mut self.lane_counters)
        {
            let mut claimed = None;
            let is_ours = self.steering.admits_from(frame.bytes(), |source| claimed = Some(source));
            if let Some(source) = claimed {
                self.learn_address(source, member);
            }
            if is_ours {
                taken += 1;
                each(frame);
            }
        }
        if self.peers[member].lanes.from.made_room() {
            self.wake_for_room(member);
        }
        if self.peers[member].is_leaving() {
            self.disconnect_if_empty(member);
        }
        taken
    }

    #[cold]
    fn disconnect_if_empty(&mut self, member: usize) {
        if self.peers[member].has_nothing_left() {
            self.peers[member].disconnect(&self.membership, &mut self.departed);
            // Make the next call read the list again.
            self.seen_changes = self.membership.header.changes().load(Relaxed).wrapping_sub(1);
        }
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

    #[cold]
    #[inline(never)]
    fn check_and_receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.check_lanes();
        self.receive_from_lanes(budget, each)
    }

    /// Nothing has arrived for a while. Check the lanes and the members.
    #[cold]
    fn check_lanes(&mut self) {
        for at in 0..self.present.len() {
            let member = self.present[at];
            self.lane_counters.nonsense += u64::from(self.peers[member].lanes.refuse_if_diverged());
        }
        self.restart_damaged();
        self.refresh_members();
    }

    /// The thread is about to sleep: ask senders to wake it, and receivers whose lanes are full. The caller reads the lanes once more.
    #[cold]
    pub(crate) fn before_sleep(&mut self) {
        self.check_lanes();
        self.waker.arm();
        self.counters.sleeps += 1;
        let waits_for_room = self.peers.iter().any(Peer::is_full);
        self.membership.header.asleep(self.membership.member).set(waits_for_room);
        if waits_for_room && self.peers.iter_mut().any(Peer::has_room_again) {
            self.waker.ring();
        }
    }
}
