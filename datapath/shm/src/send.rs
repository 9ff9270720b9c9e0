//! The send path. This member pushes frames into its lane to another member, which pops them. A lane is bounded by its
//! size. When it is full, a frame is refused; after a while without progress the frame is dropped and counted.

use std::sync::atomic::{Ordering::*, fence};

use am_ring::Frame;
use am_wire::{Address, Buffer};

use crate::peer::Verdict;
use crate::{Shm, bell};

impl Shm {
    /// Send a frame to one member, or to all. False if it was not sent to any: then it can be sent again without a
    /// duplicate.
    #[inline]
    pub(crate) fn put(&mut self, to: Address, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        if bytes.len() > self.caps.max_frame || bytes.is_empty() {
            self.count.lost_too_long += 1;
            return true;
        }
        // The member's number is in its address.
        let member = to.0[5] as usize;
        let went = match self.peers.get(member) {
            Some(peer) if peer.is_at(to) => self.put_one(member, bytes),
            // A broadcast, or an unknown address: flood it, as a switch does.
            _ => self.put_elsewhere(to, bytes),
        };
        self.count.full += u64::from(!went);
        went
    }

    /// Send to a member that has just joined, or to all.
    #[cold]
    fn put_elsewhere(&mut self, to: Address, bytes: &[u8]) -> bool {
        self.look();
        match self.peers.iter().position(|peer| peer.is_at(to)) {
            Some(member) => self.put_one(member, bytes),
            None => self.flood(bytes),
        }
    }

    /// Put a frame into one lane, or drop it if the member is dead or stalled. False if there is no room now.
    #[inline]
    fn put_one(&mut self, member: usize, bytes: &[u8]) -> bool {
        let peer = &mut self.peers[member];
        if peer.to.push(bytes).is_err() {
            return self.is_lost(member);
        }
        peer.went();
        self.count.sent += 1;
        self.unpublished |= 1 << member;
        true
    }

    /// Whether a frame for a full lane is lost; counts it if so.
    #[cold]
    fn is_lost(&mut self, member: usize) -> bool {
        let (peer, own) = (&mut self.peers[member], &self.own);
        let birth = peer.birth;
        match peer.is_full(|| own.is_alive(member, birth)) {
            Verdict::Wait => return false,
            Verdict::Dead => {
                own.header.bury(member, peer.birth);
                peer.is_leaving = true;
                self.count.lost_dead += 1;
            }
            Verdict::Hung => self.count.lost_hung += 1,
            Verdict::JustHung => {
                // Restart the lane: it may be damaged in a way that neither end can detect.
                peer.to.offer(peer.pair_to);
                self.count.restarts += 1;
                self.count.lost_hung += 1;
            }
        }
        true
    }

    /// Put a frame into all lanes or, if one is full, into none.
    fn flood(&mut self, bytes: &[u8]) -> bool {
        for at in 0..self.present.len() {
            let member = self.present[at];
            let peer = &mut self.peers[member];
            if peer.is_here() && !peer.to.has_room_for(bytes.len()) && !self.is_lost(member) {
                return false;
            }
        }
        let mut reached = false;
        for at in 0..self.present.len() {
            let member = self.present[at];
            if self.peers[member].is_here() && self.peers[member].to.has_room_for(bytes.len()) {
                reached |= self.put_one(member, bytes);
            }
        }
        self.count.lost_alone += u64::from(!reached);
        true
    }

    /// Publish the frames in the lanes, and wake members that may be asleep.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let shown = std::mem::take(&mut self.unpublished);
        if shown == 0 {
            return;
        }
        for_each_bit(shown, |member| _ = self.peers[member].to.publish());
        // See `bell.rs`: either we see that the member sleeps, or it sees the frame.
        fence(SeqCst);
        for_each_bit(shown, |member| {
            let asleep = self.own.header.asleep(member);
            if asleep.load(Relaxed) != 0 && asleep.swap(0, Relaxed) != 0 {
                self.wake(member);
            }
            self.mend_lane(member);
        });
    }

    /// Restart the lanes that their receivers have refused, so that the next frame is not lost as well.
    pub(crate) fn mend(&mut self) {
        for at in 0..self.present.len() {
            self.mend_lane(self.present[at]);
        }
    }

    #[inline]
    fn mend_lane(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        if peer.to.is_spoiled() && peer.is_here() {
            peer.to.offer(peer.pair_to);
            self.count.restarts += 1;
        }
    }

    #[cold]
    fn wake(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        if peer.bell.is_none() {
            peer.bell = bell::open(self.own.place.dir_fd(), &peer.bell_name).ok();
        }
        match &peer.bell {
            Some(fifo) => {
                bell::ring(fifo);
                self.count.rings += 1;
            }
            None => self.count.no_bell += 1,
        }
    }
}

#[inline]
fn for_each_bit(mut bits: u64, mut each: impl FnMut(usize)) {
    while bits != 0 {
        each(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}
