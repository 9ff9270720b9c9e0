//! Frames that arrive.

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use nix::sys::socket::{MsgFlags, recv};
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::expected::Expected;
use crate::frames::Frames;
use crate::stats;
use crate::stats::RxCounters;

/// Frames taken from, or put into, a ring at once: one update of the index
/// that kernel and we share.
pub(crate) const BURST: usize = 64;

/// Blanks in the fill ring in copy mode, unless more is promised. The kernel
/// writes to them in turn, and each needs an entry in the TLB on both sides:
/// with 1024 of them a round trip over veth takes 3 % longer, with 2048 5 %. A
/// NIC in zero-copy mode gets all that its own ring can take.
const FEW: usize = 256;

/// The rings of reception.
pub(crate) struct Rx {
    arrived: RxQueue,
    fill: FillQueue,
    /// Blanks that there should be in the fill ring.
    level: usize,
    /// And that there can be.
    entries: usize,
    expected: Expected,
    /// Blanks that the fill ring lacks.
    lacking: usize,
    /// No frame was left for the fill ring when it was last filled.
    starving: bool,
    /// Whether the kernel may stop for want of blanks and wait for a call.
    zero_copy: bool,
    /// Whether frames arrive only if we ask the kernel to look.
    busy_poll: bool,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: RxCounters,
}

impl Rx {
    pub(crate) fn new(arrived: RxQueue, fill: FillQueue, entries: u32, zero_copy: bool, busy_poll: bool) -> Rx {
        let descriptors = Box::new([FrameDesc::default(); BURST]);
        let entries = entries as usize;
        let level = if zero_copy { entries } else { FEW.min(entries) };
        Rx {
            arrived,
            fill,
            lacking: level,
            level,
            entries,
            expected: Expected::new(entries, zero_copy),
            starving: false,
            zero_copy,
            busy_poll,
            descriptors,
            counters: RxCounters::default(),
        }
    }

    fn fd(&self) -> RawFd {
        self.arrived.fd().as_raw_fd()
    }

    /// The kernel's statistics of the socket.
    pub(crate) fn kernel_statistics(&self, each: &mut dyn FnMut(&'static str, u64)) {
        stats::kernel(&self.arrived, each);
    }

    /// So many frames may come before we look again: there should be a blank for each.
    pub(crate) fn promise(&mut self, frames: usize) {
        let more = frames.min(self.entries).saturating_sub(self.level);
        self.level += more;
        self.lacking += more;
    }

    /// Blanks in the fill ring, or filled and not yet seen.
    pub(crate) fn blanks(&self) -> usize {
        self.level - self.lacking
    }

    /// Hand over what has arrived, at most `budget` frames. Between bursts, and
    /// when there is nothing, fill the fill ring up.
    #[inline]
    pub(crate) fn receive(&mut self, frames: &mut Frames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut received = 0;
        while received < budget {
            let burst = self.burst(frames, budget - received, each);
            received += burst;
            // A few wait until nothing arrives.
            if self.lacking > BURST.min(self.level / 4) || burst == 0 {
                self.refill(frames);
            }
            if burst < BURST {
                break;
            }
        }
        if received == 0 {
            self.wake();
        }
        received
    }

    /// At most [`BURST`] frames.
    #[inline]
    fn burst(&mut self, frames: &mut Frames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let most = budget.min(BURST);
        let there = self.arrived.nb_avail(most as u32);
        if there == 0 {
            return 0;
        }
        self.expected.next(there as usize).for_each(|address| frames.pool().prefetch(address));
        // SAFETY: the ring's frames are all of the one UMEM there is.
        let count = unsafe { self.arrived.consume(&mut self.descriptors[..most]) };
        self.lacking += count;
        for descriptor in &self.descriptors[..count] {
            self.counters.frames += 1;
            self.counters.bytes += descriptor.lengths().data() as u64;
            self.expected.arrived(descriptor.addr());
            if !frames.arrived(descriptor, each) {
                self.counters.invalid += 1;
            }
        }
        count
    }

    /// Blanks into the fill ring, up to its level or until no frame is left.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Frames) {
        while self.lacking > 0 {
            let wanted = self.lacking.min(BURST);
            // The kernel takes blanks in bursts and says so afterwards, so that
            // the ring may have less room than we have frames back.
            let room = wanted.min(self.fill.nb_free(wanted as u32) as usize);
            let count = self.put(frames, room);
            let starving = count < room;
            self.counters.starved += u64::from(starving && !self.starving);
            self.starving = starving;
            if count < wanted {
                return;
            }
        }
    }

    fn put(&mut self, frames: &mut Frames, most: usize) -> usize {
        let mut count = 0;
        for place in &mut self.descriptors[..most] {
            let Some(blank) = frames.blank() else { break };
            self.expected.put(blank.addr());
            *place = blank;
            count += 1;
        }
        // SAFETY: these frames are of the ring's UMEM, and have just been lent
        // to the kernel; nobody else accesses them.
        let taken = unsafe { self.fill.produce(&self.descriptors[..count]) };
        debug_assert_eq!(taken, count, "there was room");
        self.lacking -= count;
        count
    }

    /// Nothing has arrived. Does the kernel wait for a call?
    #[inline]
    fn wake(&mut self) {
        if self.busy_poll || (self.zero_copy && self.fill.needs_wakeup()) {
            self.counters.wakeups += 1;
            ask(self.fd());
        }
    }
}

/// Let the kernel look at what has come and what there is to fill.
#[inline]
pub(crate) fn ask(socket: RawFd) {
    // What it returns is how the link is; sending notices that too.
    let _ = recv(socket, &mut [], MsgFlags::MSG_DONTWAIT);
}
