//! A member of a link, and its state about the others. The header counts the changes of the list of members, and a member reads the
//! list again when that count has changed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use am_ring::lane::LaneCounters;
use am_transport::{Caps, Steering};
use am_wire::Address;

use crate::join::Membership;
use crate::options::MAX_MEMBERS;
use crate::peer::{Peer, address};
use crate::waker::Waker;

/// How often this member asks the kernel which others live, and about the segment's file. A question takes a microsecond or less.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// This process's membership of a segment: the shm transport.
#[derive(Debug)]
pub struct Shm {
    pub(crate) caps: Caps,
    pub(crate) steering: Steering,
    pub(crate) membership: Membership,
    pub(crate) waker: Waker,
    /// The other members, by number. This member's own entry is not used.
    pub(crate) peers: Box<[Peer]>,
    /// From this many bytes on, long data is read from the sender's memory.
    pub(crate) lend_from: u64,
    /// A bit for each other member, and for each that has left but whose lane has unread frames.
    pub(crate) present: u64,
    /// Addresses of nodes behind other members, each with the number and generation of that member. Learned from control frames.
    pub(crate) added_addresses: BTreeMap<Address, (usize, u32)>,
    /// The lanes that the next receive looks at: those that the last one did not reach before its budget ended, or all.
    pub(crate) turn: u64,
    /// The header's count of changes when the list of members was last read.
    pub(crate) seen_changes: u32,
    /// A bit for each member whose lane has frames that are not published yet.
    pub(crate) unpublished: u64,
    /// The empty receives in a row until the next check.
    pub(crate) looks_left: u32,
    /// The addresses of members that have left or died, until they are reported to the node.
    pub(crate) departed: Vec<Address>,
    /// Silent peers whose process lives, until they are reported to the node.
    pub(crate) alive: Vec<Address>,
    /// The node searches for a peer: report all members to it.
    pub(crate) strangers_wanted: bool,
    /// How long a sender waits for a full lane.
    pub(crate) stall_timeout: Duration,
    pub(crate) next_check: Instant,
    /// What was wrong with the segment at the last check.
    pub(crate) segment_error: Option<&'static str>,
    pub(crate) counters: Counters,
    pub(crate) lane_counters: LaneCounters,
}

am_transport::counters! {
    Counters, "shm_": sent, received, full, lost_too_long, lost_alone, lost_dead, lost_hung, restarts, rings, no_bell, sleeps
}

/// The members of a set.
pub(crate) fn members(set: u64) -> impl Iterator<Item = usize> {
    const { assert!(MAX_MEMBERS == u64::BITS as usize, "a set has a bit for each member") };
    let rest = |set: u64| (set != 0).then_some(set);
    std::iter::successors(rest(set), move |set| rest(set & (set - 1))).map(|set| set.trailing_zeros() as usize)
}

impl Shm {
    /// Whether the list of members has changed.
    #[inline(always)]
    pub(crate) fn has_changed(&self) -> bool {
        self.membership.header.changes().load(Acquire) != self.seen_changes
    }

    /// Read the list of members if it has changed.
    #[inline]
    pub(crate) fn refresh_if_changed(&mut self) {
        if self.has_changed() {
            self.refresh_members();
        }
    }

    /// Whether the process at this address lives, or the process that serves this address.
    pub(crate) fn is_alive(&self, peer: Address) -> bool {
        let added = self.added_addresses.get(&peer).filter(|(member, birth)| self.peers[*member].is_run(*birth));
        let its = |at: &&Peer| at.has_address(peer) || added.is_some_and(|(member, _)| at.member == *member);
        let found = self.peers.iter().find(its);
        found.is_some_and(|peer| self.membership.is_alive(peer.member, peer.generation))
    }

    /// Find damage to the segment, and members that were killed without leaving. Frames that they sent before are still received.
    pub(crate) fn check_link(&mut self) {
        let now = Instant::now();
        if now < self.next_check {
            return;
        }
        self.next_check = now + CHECK_INTERVAL;
        self.segment_error = self.membership.segment_error();
        for member in members(self.present) {
            let peer = &mut self.peers[member];
            if peer.is_present() && !self.membership.is_alive(peer.member, peer.generation) {
                self.membership.header.remove_member(peer.member, peer.generation);
                peer.leave();
            }
            peer.lanes.from.confirm();
        }
        self.restart_damaged();
    }

    /// If the receiver has found its lane to be damaged, begin a new session, so that the next frame is not lost as well.
    #[cold]
    pub(crate) fn restart_if_damaged(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        if peer.lanes.to.needs_offer() && peer.is_present() {
            peer.lanes.offer();
            self.counters.restarts += 1;
        }
    }

    /// The same for all lanes.
    #[cold]
    pub(crate) fn restart_damaged(&mut self) {
        members(self.present).for_each(|member| self.restart_if_damaged(member));
    }

    /// Read the list of members.
    #[cold]
    pub(crate) fn refresh_members(&mut self) {
        let header = &self.membership.header;
        self.seen_changes = header.changes().load(Acquire);
        if header.generation(self.membership.member).load(Relaxed) != self.membership.generation {
            // Another process has overwritten this member's entry.
            header.generation(self.membership.member).store(self.membership.generation, Release);
            header.notify_members();
        }
        // Read the joined members before those that left. In the other order, a member could be seen to join before its predecessor with
        // the same number is seen to leave.
        let mut births = [0; MAX_MEMBERS];
        for (member, birth) in births.iter_mut().enumerate().take(self.peers.len()) {
            *birth = header.generation(member).load(Acquire);
        }
        for peer in self.peers.iter_mut().filter(|peer| peer.generation != 0) {
            let birth = header.generation(peer.member).load(Acquire);
            // If the member lives, another process has overwritten its entry.
            if !peer.is_leaving() && birth != peer.generation && !self.membership.is_alive(peer.member, peer.generation)
            {
                peer.leave();
            }
            if peer.is_leaving() && peer.has_nothing_left() {
                peer.disconnect(&self.membership, &mut self.departed);
            }
        }
        let is_any_leaving = self.peers.iter().any(Peer::is_leaving);
        if is_any_leaving {
            // Its last frames are not received yet. Make the next call look again.
            self.seen_changes = self.seen_changes.wrapping_sub(1);
        }
        self.present = 0;
        for peer in self.peers.iter_mut().filter(|peer| peer.member != self.membership.member) {
            let birth = births[peer.member];
            // A new member may be the next run of a node whose last frames are still in the lane of its earlier run. Those come first.
            let is_new = peer.generation == 0 && birth != 0 && !is_any_leaving;
            if is_new && self.membership.is_reachable(peer.member, birth) {
                peer.connect(&self.membership, birth);
            }
            if peer.generation != 0 {
                self.present |= 1 << peer.member;
            }
        }
        debug_assert_eq!(self.caps.address, address(self.membership.member, self.membership.generation));
    }
}
