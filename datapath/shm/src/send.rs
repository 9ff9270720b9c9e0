//! The send path. This member pushes frames into its lane to another member, which pops them. A lane is bounded by its
//! size. When it is full, `send` returns `false`; after a while without progress, frames are dropped and counted.

use am_ring::Frame;
use am_ring::lane::SleepWord;
use am_wire::{Address, Buffer};

use crate::link::{Shm, members};
use crate::peer::Verdict;
use crate::waker;

impl Shm {
    /// Send a frame to one member, or to all. `false` if there was no room. Then no member got it, so sending it again makes
    /// no duplicate.
    #[inline]
    pub(crate) fn send_frame(&mut self, to: Address, frame: &Frame) -> bool {
        // The member's number is in its address.
        let member = to.0[5] as usize;
        if let Some(peer) = self.peers.get_mut(member)
            && peer.is_at(to)
            && peer.lanes.to.push_line(frame.bytes())
        {
            self.counters.sent += 1;
            self.unpublished |= 1 << member;
            return true;
        }
        self.send_any(to, frame)
    }

    /// Send any other frame: a longer one, one that finds no room, a broadcast, one for an unknown address.
    #[inline(never)]
    fn send_any(&mut self, to: Address, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        if bytes.len() > self.caps.max_frame || bytes.is_empty() {
            self.counters.lost_too_long += 1;
            return true;
        }
        let is_sent = match self.peers.get(to.0[5] as usize) {
            Some(peer) if peer.has_address(to) => self.push(peer.member, bytes),
            // Flood it, as a switch does.
            _ => self.push_to_new_or_all(to, bytes),
        };
        self.counters.full += u64::from(!is_sent);
        is_sent
    }

    /// Send to a member that has just joined, to the member in front of this address, or to all.
    fn push_to_new_or_all(&mut self, to: Address, bytes: &[u8]) -> bool {
        self.refresh_if_changed();
        let member = self.peers.iter().position(|peer| peer.has_address(to));
        let is_valid = |added: &&(usize, u32)| self.peers[added.0].is_run(added.1);
        match member.or_else(|| self.added_addresses.get(&to).filter(is_valid).map(|added| added.0)) {
            Some(member) => self.push(member, bytes),
            None => self.flood(bytes),
        }
    }

    /// Put a frame into one lane, or drop it if the member is dead or stalled. `false` if there is no room now.
    fn push(&mut self, member: usize, bytes: &[u8]) -> bool {
        let peer = &mut self.peers[member];
        if peer.lanes.to.push(bytes).is_err() {
            return self.drop_if_stuck(member);
        }
        peer.on_sent();
        self.counters.sent += 1;
        self.unpublished |= 1 << member;
        true
    }

    /// The lane is full. If its member is dead or stalled, count the frame as dropped and return `true`.
    #[cold]
    fn drop_if_stuck(&mut self, member: usize) -> bool {
        self.restart_if_damaged(member);
        let (peer, own) = (&mut self.peers[member], &self.membership);
        let generation = peer.generation;
        match peer.on_full(self.stall_timeout, || own.is_alive(member, generation)) {
            Verdict::Wait => return false,
            Verdict::Dead => {
                own.header.remove_member(member, generation);
                peer.leave();
                self.counters.lost_dead += 1;
            }
            Verdict::Stalled => self.counters.lost_hung += 1,
        }
        true
    }

    /// Put a frame into all lanes or, if one is full, into none.
    fn flood(&mut self, bytes: &[u8]) -> bool {
        for member in members(self.present) {
            let peer = &mut self.peers[member];
            if peer.is_present() && !peer.lanes.to.has_room_for(bytes.len()) && !self.drop_if_stuck(member) {
                return false;
            }
        }
        let mut reached = false;
        for member in members(self.present) {
            if self.peers[member].is_present() && self.peers[member].lanes.to.has_room_for(bytes.len()) {
                reached |= self.push(member, bytes);
            }
        }
        self.counters.lost_alone += u64::from(!reached);
        true
    }

    /// Publish the frames in the lanes, and wake members that may be asleep.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let published = std::mem::take(&mut self.unpublished);
        // Usually it is one lane.
        let Some(peer) = self.peers.get_mut(published.trailing_zeros() as usize) else { return };
        peer.lanes.to.publish();
        if !published.is_power_of_two() {
            return self.publish_and_wake(published);
        }
        SleepWord::after_publish();
        if peer.asleep.is_set() {
            self.publish_and_wake(published);
        }
    }

    #[inline(never)]
    fn publish_and_wake(&mut self, published: u64) {
        members(published).for_each(|member| _ = self.peers[member].lanes.to.publish());
        SleepWord::after_publish();
        for member in members(published) {
            if self.peers[member].asleep.take() {
                self.wake_member(member);
            }
        }
    }

    /// Lines of this member's lane were given back. It may sleep until then.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_for_room(&mut self, member: usize) {
        SleepWord::after_publish();
        if self.peers[member].asleep.take_for_room() {
            self.wake_member(member);
        }
    }

    #[cold]
    fn wake_member(&mut self, member: usize) {
        let peer = &mut self.peers[member];
        if peer.waker.is_none() {
            peer.waker = waker::open(self.membership.place.dir_fd(), &peer.waker_name).ok();
        }
        match &peer.waker {
            Some(fifo) => {
                waker::write_byte(fifo);
                self.counters.rings += 1;
            }
            None => self.counters.no_bell += 1,
        }
    }
}
