//! What a member knows of another: a lane to it, a lane from it, its bell.

use std::ffi::CString;
use std::fs::File;
use std::time::{Duration, Instant};

use am_ring::lane::{Pair, Receiver, Sender};
use am_wire::Address;

use crate::join::Membership;

/// Who has a full lane and takes nothing for so long is taken for hung: what is for it is lost, so that one who hangs stops nobody.
const HUNG: Duration = Duration::from_millis(250);
/// Whether its process lives is asked so often at most.
const ASK: Duration = Duration::from_millis(5);

/// Another member, or a place where one may be.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) member: usize,
    /// 0 while nobody is.
    pub(crate) birth: u32,
    pub(crate) to: Sender,
    pub(crate) from: Receiver,
    /// Who they are between.
    pub(crate) pair_to: Pair,
    pub(crate) pair_from: Pair,
    /// Nothing was in its lane when we last looked.
    pub(crate) is_empty: bool,
    /// It has left: what it sent before is still taken in.
    pub(crate) is_leaving: bool,
    /// Since when its lane is full.
    full_since: Option<Full>,
    /// Its bell, once it was needed.
    pub(crate) bell: Option<File>,
    /// And what that is called.
    pub(crate) bell_name: CString,
}

#[derive(Clone, Copy, Debug)]
struct Full {
    since: Instant,
    asked: Instant,
    is_hung: bool,
}

/// What to do with a frame for one whose lane is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may have room soon.
    Wait,
    /// It is dead.
    Dead,
    /// It lives, and takes nothing.
    Hung,
    /// That has just begun: what waits for it is to be given up.
    JustHung,
}

/// The address of a member: locally administered, of one host. Its birth is in it, so that nothing for a member reaches
/// the next one in its place.
pub(crate) fn address(member: usize, birth: u32) -> Address {
    let [a, b, c, d] = birth.to_be_bytes();
    Address([0x02, a, b, c, d, member as u8])
}

impl Peer {
    pub(crate) fn new(own: &Membership, member: usize) -> Peer {
        let (geometry, memory) = (&own.geometry, &own.mapped.memory);
        let lane = |from, to| memory.part(geometry.lane_at(from, to), geometry.shape.bytes());
        let nobody = Pair::new(0, 0);
        Peer {
            member,
            birth: 0,
            to: Sender::new(lane(own.own, member), geometry.shape),
            from: Receiver::new(lane(member, own.own), geometry.shape),
            pair_to: nobody,
            pair_from: nobody,
            is_empty: true,
            is_leaving: false,
            full_since: None,
            bell: None,
            bell_name: own.place.fifo(member),
        }
    }

    /// Somebody is here: both lanes start from nothing.
    pub(crate) fn meet(&mut self, own: u32, birth: u32) {
        self.birth = birth;
        (self.pair_to, self.pair_from) = (Pair::new(own, birth), Pair::new(birth, own));
        self.to.offer(self.pair_to);
        self.from.forget();
        (self.is_leaving, self.full_since, self.bell) = (false, None, None);
    }

    /// Nobody is here any more.
    pub(crate) fn part(&mut self) {
        (self.birth, self.is_leaving, self.full_since, self.bell) = (0, false, None, None);
    }

    /// Whether frames can be sent to it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.birth != 0 && !self.is_leaving
    }

    #[inline]
    pub(crate) fn is_at(&self, to: Address) -> bool {
        self.is_here() && address(self.member, self.birth) == to
    }

    /// A frame went into its lane.
    #[inline]
    pub(crate) fn went(&mut self) {
        if self.full_since.is_some() {
            self.moves();
        }
    }

    #[cold]
    fn moves(&mut self) {
        // Who is taken for hung is so until it takes something, not until its lane has room because we emptied it.
        if self.full_since.is_some_and(|full| !full.is_hung) || self.to.has_moved() {
            self.full_since = None;
        }
    }

    /// There is no room for a frame.
    #[cold]
    pub(crate) fn is_full(&mut self, is_alive: impl FnOnce() -> bool) -> Verdict {
        let now = Instant::now();
        let full = self.full_since.get_or_insert(Full { since: now, asked: now, is_hung: false });
        if now - full.asked < ASK {
            return if full.is_hung { Verdict::Hung } else { Verdict::Wait };
        }
        full.asked = now;
        if !is_alive() {
            return Verdict::Dead;
        }
        if full.is_hung {
            return Verdict::Hung;
        }
        full.is_hung = now - full.since > HUNG;
        if full.is_hung { Verdict::JustHung } else { Verdict::Wait }
    }
}
