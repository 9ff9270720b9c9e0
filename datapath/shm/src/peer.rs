//! This member's state about another member: a lane to it, a lane from it, its FIFO.

use std::ffi::CString;
use std::fs::File;
use std::time::{Duration, Instant};

use am_ring::Own;
use am_ring::lane::{Duplex, Pair, Peeked, Shared, SleepWord};
use am_wire::Address;

use crate::join::Membership;
use crate::process::Process;

/// A member that takes nothing from its full lane for this long counts as stalled. Frames for it are then lost, so that it
/// does not block those for others (head-of-line blocking).
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_millis(250);
/// The shortest time between two checks of whether a member with a full lane lives.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// No address is this number.
const NOWHERE: u64 = u64::MAX;

/// An address as a number that is quickly compared.
#[inline(always)]
fn number_of(address: Address) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&address.0);
    u64::from_ne_bytes(bytes)
}

/// Another member, or a free member number.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) member: usize,
    /// 0 while there is no member.
    pub(crate) generation: u32,
    pub(crate) lanes: Duplex,
    /// Whether it sleeps.
    pub(crate) asleep: SleepWord,
    /// Its address as a number, while frames are likely to find room in its lane; otherwise [`NOWHERE`].
    place: u64,
    /// The member has left. Frames in its lane are still received.
    is_leaving: bool,
    /// Its process, if this one can read its memory. Found out when it is first asked for.
    memory: Option<Option<Process>>,
    /// Set while its lane is full.
    full_since: Option<FullLane>,
    /// The peer's FIFO, opened when it is first needed.
    pub(crate) waker: Option<Own<File>>,
    /// The name of its FIFO.
    pub(crate) waker_name: CString,
}

#[derive(Clone, Copy, Debug)]
struct FullLane {
    since: Instant,
    last_check: Instant,
    is_stalled: bool,
}

/// What to do with a frame for a member whose lane is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Wait: there may be room soon.
    Wait,
    /// Drop: the member is dead.
    Dead,
    /// Drop: the member lives, and takes nothing. The frames in its lane stay there.
    Stalled,
}

/// The address of a member: locally administered, unicast. It contains the generation, so a frame for a member never
/// reaches a later member with the same number.
pub(crate) fn address(member: usize, birth: u32) -> Address {
    let [a, b, c, d] = birth.to_be_bytes();
    Address([0x02, a, b, c, d, member as u8])
}

impl Peer {
    pub(crate) fn new(own: &Membership, member: usize) -> Peer {
        let (geometry, memory) = (&own.geometry, Shared::of(own.mapping.clone()));
        let lane = |from, to| memory.part(geometry.lane_at(from, to), geometry.shape.bytes());
        Peer {
            member,
            generation: 0,
            lanes: Duplex::new(lane(own.member, member), lane(member, own.member), geometry.shape),
            asleep: own.header.asleep(member),
            place: NOWHERE,
            is_leaving: false,
            memory: None,
            full_since: None,
            waker: None,
            waker_name: own.place.fifo_name(member),
        }
    }

    /// A member has joined: both lanes start empty.
    pub(crate) fn connect(&mut self, own: &Membership, birth: u32) {
        own.header.holds.keep(own.member, self.member);
        self.generation = birth;
        self.lanes.connect(Pair::new(own.generation, birth), Pair::new(birth, own.generation));
        (self.is_leaving, self.memory, self.full_since, self.waker) = (false, None, None, None);
        self.set_place();
    }

    /// Copy bytes of its process's memory. Returns whether all were copied.
    pub(crate) fn read_memory(&mut self, own: &Membership, at: u64, into: &mut [u8]) -> bool {
        let found =
            || Some(own.header.process(self.member)).filter(|process| own.is_private && process.read(0, &mut []));
        self.memory.get_or_insert_with(found).is_some_and(|process| process.read(at, into))
    }

    /// Whether all frames in its lane were received. An invalid record counts as their end.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_nothing_left(&mut self) -> bool {
        !matches!(self.lanes.look(), Peeked::Frame(_))
    }

    /// The member has left, and all its frames were received: another member may take its number and its lanes. `departed` gets its
    /// address. If the node never reads `departed`, only the first addresses are kept.
    #[cold]
    pub(crate) fn disconnect(&mut self, own: &Membership, departed: &mut Vec<Address>) {
        if departed.len() < departed.capacity() {
            departed.push(address(self.member, self.generation));
        }
        own.header.holds.release(own.member, self.member);
        (self.generation, self.is_leaving, self.full_since, self.waker) = (0, false, None, None);
        self.set_place();
    }

    /// The member has left, or its process has ended: nothing more is sent to it.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        self.set_place();
    }

    fn set_place(&mut self) {
        let is_usual = self.is_present() && self.full_since.is_none();
        self.place = if is_usual { number_of(address(self.member, self.generation)) } else { NOWHERE };
    }

    /// Whether the member has left, and its lane may still have frames.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether frames can be sent to it.
    #[inline]
    pub(crate) fn is_present(&self) -> bool {
        self.generation != 0 && !self.is_leaving
    }

    /// Whether frames can be sent to it, and it has this generation.
    pub(crate) fn is_run(&self, generation: u32) -> bool {
        self.is_present() && self.generation == generation
    }

    /// Whether frames for this address can be sent to it.
    pub(crate) fn has_address(&self, to: Address) -> bool {
        self.is_present() && to == address(self.member, self.generation)
    }

    /// As [`has_address`](Self::has_address), and its lane was not full.
    #[inline(always)]
    pub(crate) fn is_at(&self, to: Address) -> bool {
        self.place == number_of(to)
    }

    /// A frame was put into its lane.
    pub(crate) fn on_sent(&mut self) {
        // A stalled member counts as stalled until it takes something. Room for a short frame is not enough.
        if let Some(full) = self.full_since
            && (!full.is_stalled || self.lanes.to.made_room())
        {
            self.forget_full();
        }
    }

    /// Whether a frame for it waits for room in its lane.
    pub(crate) fn is_full(&self) -> bool {
        self.full_since.is_some_and(|full| !full.is_stalled)
    }

    /// Whether its lane was full, and the member has given back lines since.
    #[cold]
    pub(crate) fn has_room_again(&mut self) -> bool {
        self.is_full() && self.lanes.to.made_room()
    }

    /// Start the stall time anew, with the next frame that finds its lane full.
    pub(crate) fn forget_full(&mut self) {
        self.full_since = None;
        self.set_place();
    }

    /// The peer's lane has no room for a frame. Returns what to do with the frame.
    #[cold]
    pub(crate) fn on_full(&mut self, longest: Duration, is_alive: impl FnOnce() -> bool) -> Verdict {
        let now = Instant::now();
        self.place = NOWHERE;
        let full = self.full_since.get_or_insert(FullLane { since: now, last_check: now, is_stalled: false });
        if now - full.last_check < CHECK_INTERVAL {
            return if full.is_stalled { Verdict::Stalled } else { Verdict::Wait };
        }
        full.last_check = now;
        if !is_alive() {
            return Verdict::Dead;
        }
        full.is_stalled |= now - full.since > longest;
        if full.is_stalled { Verdict::Stalled } else { Verdict::Wait }
    }
}
