//! The receive path for frames of one or several chunks. Its rings are used as in [`crate::rx`].

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::rx::{BURST, wake_rx};
use crate::stats;
use crate::stats::RxCounters;

use super::gather::{Gather, Gathered};
use super::{LongFrames, RxChunks};

/// Frames for which the fill ring has chunks, unless more credit is announced.
const DEFAULT_FRAMES: usize = 64;

/// The rings of reception.
pub(crate) struct Rx {
    arrived: RxQueue,
    fill: FillQueue,
    rx_chunks: RxChunks,
    gather: Gather,
    /// Chunks that the longest received frame takes.
    chunks_per_frame: usize,
    /// Chunks that the fill ring should have.
    level: usize,
    /// Chunks in the fill ring, or filled and not yet received.
    in_flight: usize,
    /// Whether the pool was empty at the last receive.
    is_starving: bool,
    zero_copy: bool,
    busy_poll: bool,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: RxCounters,
}

impl Rx {
    /// `each`: chunks that the longest received frame takes.
    pub(crate) fn new(
        (arrived, fill): (RxQueue, FillQueue),
        landings: RxChunks,
        each: usize,
        (zero_copy, busy_poll): (bool, bool),
    ) -> Rx {
        let level = if zero_copy { landings.count() } else { landings.count().min(DEFAULT_FRAMES * each) };
        Rx {
            arrived,
            fill,
            rx_chunks: landings,
            gather: Gather::default(),
            chunks_per_frame: each,
            level,
            in_flight: 0,
            is_starving: false,
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

    /// Peers may send this many frames: have chunks for each.
    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        let wanted = frames.saturating_mul(self.chunks_per_frame).min(self.rx_chunks.count());
        self.level = self.level.max(wanted);
        self.refill();
    }

    /// Chunks in the fill ring, or filled and not yet received.
    pub(crate) fn fill_buffers(&self) -> usize {
        self.in_flight
    }

    /// Pass received frames to `each`, at most `budget`.
    #[inline]
    pub(crate) fn receive(&mut self, frames: &LongFrames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut received = 0;
        while received < budget {
            // A chunk holds the end of at most one frame, and the beginning of at most one.
            let most = (budget - received).min(BURST).min(self.available_frames(frames));
            // SAFETY: all chunks in the ring are of the only UMEM.
            let count = unsafe { self.arrived.consume(&mut self.descriptors[..most]) };
            self.in_flight -= count;
            for at in 0..count {
                if let Some(frame) = self.take_piece(frames, at) {
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
            self.wake_kernel();
        }
        received
    }

    /// The number of chunks that can be gathered with the frames that the pool has left. Other chunks stay in the ring.
    #[inline]
    fn available_frames(&mut self, frames: &LongFrames) -> usize {
        let left = frames.pool().available() + usize::from(self.gather.has_begun());
        let starving = left == 0;
        self.counters.starved += u64::from(starving && !self.is_starving);
        self.is_starving = starving;
        left
    }

    /// Take one piece. Returns the frame if it is complete now.
    #[inline]
    fn take_piece(&mut self, frames: &LongFrames, at: usize) -> Option<Frame> {
        let descriptor = self.descriptors[at];
        self.counters.bytes += descriptor.lengths().data() as u64;
        let piece = self.rx_chunks.take_received(&descriptor);
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

    /// Fill the fill ring up to its level.
    #[inline]
    pub(crate) fn refill(&mut self) {
        while self.in_flight < self.level {
            let wanted = (self.level - self.in_flight).min(BURST);
            // The kernel takes chunks in bursts and publishes that later. So the ring may have less room than chunks
            // are missing.
            let room = wanted.min(self.fill.nb_free(wanted as u32) as usize);
            let count = self.push_buffers(room);
            if count < wanted {
                return;
            }
        }
    }

    fn push_buffers(&mut self, most: usize) -> usize {
        let mut count = 0;
        for place in &mut self.descriptors[..most] {
            let Some(landing) = self.rx_chunks.lend() else { break };
            *place = landing;
            count += 1;
        }
        // SAFETY: these chunks are of the ring's UMEM and were just given to the kernel; nothing else accesses them.
        let taken = unsafe { self.fill.produce(&self.descriptors[..count]) };
        debug_assert_eq!(taken, count, "there was room");
        self.in_flight += count;
        count
    }

    /// Nothing has arrived: call the kernel if it waits for that.
    #[inline]
    fn wake_kernel(&mut self) {
        if self.busy_poll || (self.zero_copy && self.fill.needs_wakeup()) {
            self.counters.wakeups += 1;
            wake_rx(self.fd());
        }
    }
}
