//! The receive path. Each other member pushes frames into its lane to this one, and this member copies them into frames of
//! its own pool. A lane is bounded by its size: when it is full, the sender waits, and after a while drops frames.

use std::collections::BTreeMap;
use std::ops::Deref;

use am_ring::Frame;
use am_ring::lane::{Burst, Line};
use am_transport::Transport;
use am_wire::{Address, AddressSet, Buffer};

use crate::link::{Shm, members};
use crate::peer::Peer;

/// A thread that spins checks lanes and members after this many empty receives in a row.
pub(crate) const LOOKS_TO_CHECK: u32 = 512;

/// All lanes.
pub(crate) const ALL: u64 = u64::MAX;

/// The most addresses behind other members that this one learns. Frames to further addresses are flooded.
const MAX_ADDED_ADDRESSES: usize = 16 * AddressSet::MAX;

impl Shm {
    /// Receive frames. All calls from here are the last thing done, so an idle call saves no registers.
    #[inline(always)]
    pub(crate) fn receive_frames(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        if self.has_changed() { self.refresh_and_look(budget, each) } else { self.look(budget, each) }
    }

    #[cold]
    #[inline(never)]
    fn refresh_and_look(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.refresh_members();
        self.look(budget, each)
    }

    #[inline(always)]
    fn look(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut lanes = self.present & self.turn;
        while lanes != 0 {
            let member = lanes.trailing_zeros() as usize;
            if !self.peers[member].lanes.is_quiet() {
                return self.receive_lanes(budget, each, lanes, member);
            }
            lanes &= lanes - 1;
        }
        self.receive_nothing(budget, each)
    }

    #[inline(always)]
    fn receive_nothing(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.looks_left = self.looks_left.wrapping_sub(1);
        if self.looks_left == 0 { self.check_and_receive(budget, each) } else { 0 }
    }

    /// Receive from these lanes, of which this member's is the first. If the budget ends, the next call starts at the next lane.
    // The arguments are in the order in which the caller has them in registers.
    #[inline(never)]
    fn receive_lanes(
        &mut self,
        budget: usize,
        each: &mut dyn FnMut(Frame),
        mut lanes: u64,
        mut member: usize,
    ) -> usize {
        let mut left = budget;
        loop {
            left = self.receive_lines(member, left, each);
            lanes &= lanes - 1;
            if lanes == 0 {
                break;
            }
            if left == 0 {
                return self.end_early(budget, lanes);
            }
            member = lanes.trailing_zeros() as usize;
        }
        let taken = budget - left;
        if taken == 0 {
            return self.receive_nothing(budget, each);
        }
        self.counters.received += taken as u64;
        if self.looks_left != LOOKS_TO_CHECK {
            self.stay_awake();
        }
        taken
    }

    /// The budget has ended before these lanes. The next call looks at them first, and at the others if it finds nothing there.
    #[cold]
    fn end_early(&mut self, budget: usize, lanes: u64) -> usize {
        self.counters.received += budget as u64;
        self.stay_awake();
        (self.turn, self.looks_left) = (lanes, 1);
        budget
    }

    /// Receive from one member, usually frames of one line. Returns how much of the budget is left.
    #[inline(always)]
    fn receive_lines(&mut self, member: usize, mut left: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Shm { peers, steering, caps, .. } = self;
        let peer = &mut peers[member];
        while left > 0 {
            match peer.lanes.next_line(&caps.pool) {
                Line::Frame(frame, has_more) if steering.is_usual(frame.bytes()) => {
                    left -= 1;
                    each(frame);
                    if peer.lanes.ends_burst(has_more) {
                        return left;
                    }
                }
                Line::Frame(frame, _) => return self.receive_unusual(frame, member, left, each),
                Line::Nothing => return left,
                Line::Other => return self.receive_any(member, left, each),
            }
        }
        left
    }

    /// Receive this frame from one member, and any further ones.
    #[cold]
    #[inline(never)]
    fn receive_unusual(&mut self, frame: Frame, member: usize, left: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let is_admitted = self.admits(&frame, member);
        if is_admitted {
            each(frame);
        }
        self.receive_any(member, left - usize::from(is_admitted), each)
    }

    /// Whether a frame from one member is for this node.
    #[inline]
    fn admits(&mut self, frame: &Frame, member: usize) -> bool {
        let (peers, added) = (&self.peers, &mut self.added_addresses);
        self.steering.admits_from(frame.bytes(), |source| learn_address(peers, added, source, member))
    }

    /// Receive any frames from one member.
    #[inline(never)]
    fn receive_any(&mut self, member: usize, mut left: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut burst = Burst::default();
        while left > 0
            && let Shm { peers, caps, lane_counters, .. } = self
            && let Some(frame) = peers[member].lanes.next(&mut burst, &caps.pool, lane_counters)
        {
            if self.admits(&frame, member) {
                left -= 1;
                each(frame);
            }
        }
        if self.peers[member].lanes.from.made_room() {
            self.wake_for_room(member);
        }
        left
    }

    /// Look at the lanes that the last call did not reach, or, after a while without frames, check all.
    #[cold]
    #[inline(never)]
    fn check_and_receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.looks_left = LOOKS_TO_CHECK - 1;
        if std::mem::replace(&mut self.turn, ALL) == ALL {
            self.check_lanes();
        }
        self.receive(budget, each)
    }

    /// Frames have arrived after empty receives, or after a budget ended: the thread does not sleep, and all lanes are looked at next.
    #[inline(never)]
    fn stay_awake(&mut self) {
        (self.turn, self.looks_left) = (ALL, LOOKS_TO_CHECK);
        if std::mem::take(&mut self.waker.is_armed) {
            self.membership.header.asleep(self.membership.member).clear();
        }
    }

    /// Nothing has arrived for a while. Check the lanes and the members.
    #[cold]
    fn check_lanes(&mut self) {
        for member in members(self.present) {
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
        // The next frames end the sleep.
        self.looks_left = self.looks_left.min(LOOKS_TO_CHECK - 1);
        self.counters.sleeps += 1;
        let waits_for_room = self.peers.iter().any(Peer::is_full);
        self.membership.header.asleep(self.membership.member).set(waits_for_room);
        if waits_for_room && self.peers.iter_mut().any(Peer::has_room_again) {
            self.waker.ring();
        }
    }
}

/// A control frame from this address arrived in a member's lane. Several nodes may be behind one member.
// It gets the box of the peers, so that the callers do not read it for each frame.
#[cold]
#[inline(never)]
fn learn_address(
    peers: &impl Deref<Target = [Peer]>,
    added: &mut BTreeMap<Address, (usize, u32)>,
    source: Address,
    member: usize,
) {
    if peers[member].has_address(source) {
        return;
    }
    let is_there = |(member, generation): &(usize, u32)| peers[*member].is_run(*generation);
    if added.len() >= MAX_ADDED_ADDRESSES {
        added.retain(|_, place| is_there(place));
    }
    if !added.get(&source).is_some_and(is_there) && added.len() < MAX_ADDED_ADDRESSES {
        added.insert(source, (member, peers[member].generation));
    }
}
