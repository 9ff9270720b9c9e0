//! Frames that arrive, each in one chunk or in several.

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::rx::{BURST, ask};
use crate::stats;
use crate::stats::RxCounters;

use super::gather::{Gather, Gathered};
use super::{Landings, LongFrames};

/// Frames for which there are landings in the fill ring, unless more is promised.
const FEW: usize = 64;

/// The rings of reception.
pub(crate) struct Rx {
    arrived: RxQueue,
    fill: FillQueue,
    landings: Landings,
    gather: Gather,
    /// Chunks that the longest frame lands in.
    each: usize,
    /// Landings that there should be in the fill ring.
    level: usize,
    /// And that are, or are filled and not yet seen.
    lent: usize,
    /// No frame was left for what had arrived.
    starving: bool,
    zero_copy: bool,
    busy_poll: bool,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: RxCounters,
}

impl Rx {
    /// `each`: chunks that the longest frame lands in.
    pub(crate) fn new(
        (arrived, fill): (RxQueue, FillQueue),
        landings: Landings,
        each: usize,
        (zero_copy, busy_poll): (bool, bool),
    ) -> Rx {
        let level = if zero_copy { landings.count() } else { landings.count().min(FEW * each) };
        Rx {
            arrived,
            fill,
            landings,
            gather: Gather::default(),
            each,
            level,
            lent: 0,
            starving: false,
            zero_copy,
            busy_poll,
            descriptors: Box::new([FrameDesc::default(); BURST]),
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

    /// So many frames may come before we look again: there should be landings for each.
    pub(crate) fn promise(&mut self, frames: usize) {
        let wanted = frames.saturating_mul(self.each).min(self.landings.count());
        self.level = self.level.max(wanted);
        self.refill();
    }

    /// Landings in the fill ring, or filled and not yet seen.
    pub(crate) fn blanks(&self) -> usize {
        self.lent
    }

    /// Hand over what has arrived, at most `budget` frames.
    #[inline]
    pub(crate) fn receive(&mut self, frames: &LongFrames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut received = 0;
        while received < budget {
            // A chunk has the end of one frame at most, and the beginning of one.
            let most = (budget - received).min(BURST).min(self.affordable(frames));
            // SAFETY: the ring's chunks are all of the one UMEM there is.
            let count = unsafe { self.arrived.consume(&mut self.descriptors[..most]) };
            self.lent -= count;
            for at in 0..count {
                if let Some(frame) = self.land(frames, at) {
                    received += 1;
                    each(frame);
                }
            }
            self.refill();
            if count < most || most == 0 {
                break;
            }
        }
        if received == 0 {
            self.wake();
        }
        received
    }

    /// Chunks that can be looked at with the frames that are left. What has
    /// arrived waits where it is meanwhile.
    #[inline]
    fn affordable(&mut self, frames: &LongFrames) -> usize {
        let left = frames.pool().available() + usize::from(self.gather.is_begun());
        let starving = left == 0;
        self.counters.starved += u64::from(starving && !self.starving);
        self.starving = starving;
        left
    }

    /// One piece; the frame, if it is complete now.
    #[inline]
    fn land(&mut self, frames: &LongFrames, at: usize) -> Option<Frame> {
        let descriptor = self.descriptors[at];
        self.counters.bytes += descriptor.lengths().data() as u64;
        let piece = self.landings.landed(&descriptor);
        match self.gather.add(frames.pool(), piece, descriptor.has_more_frames()) {
            Gathered::Part => None,
            Gathered::Whole(frame) => {
                self.counters.frames += 1;
                Some(frame)
            }
            Gathered::Lost => {
                self.counters.invalid += 1;
                None
            }
        }
    }

    /// Landings into the fill ring, up to its level.
    #[inline]
    pub(crate) fn refill(&mut self) {
        while self.lent < self.level {
            let wanted = (self.level - self.lent).min(BURST);
            // The kernel takes chunks in bursts and says so afterwards, so that
            // the ring may have less room than we have chunks back.
            let room = wanted.min(self.fill.nb_free(wanted as u32) as usize);
            let count = self.put(room);
            if count < wanted {
                return;
            }
        }
    }

    fn put(&mut self, most: usize) -> usize {
        let mut count = 0;
        for place in &mut self.descriptors[..most] {
            let Some(landing) = self.landings.lend() else { break };
            *place = landing;
            count += 1;
        }
        // SAFETY: these chunks are of the ring's UMEM, and have just been lent
        // to the kernel; nobody else accesses them.
        let taken = unsafe { self.fill.produce(&self.descriptors[..count]) };
        debug_assert_eq!(taken, count, "there was room");
        self.lent += count;
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
