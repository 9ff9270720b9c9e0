//! The receive path. The kernel pushes received frames into the rx ring, and the transport pops them. The transport
//! pushes empty frames into the fill ring, and the kernel pops them. Both are bounded by [`Rings`](crate::Rings); when
//! no frame is left for the fill ring, the kernel drops what arrives.

use std::os::fd::AsRawFd;

use am_ring::Frame;
use nix::sys::socket::{MsgFlags, recv};
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::frames::FrameTable;
use crate::mode::Mode;
use crate::prefetch::PrefetchQueue;
use crate::stats::RxCounters;

/// The most ring entries that move at once, with one update of the index shared with the kernel.
pub(crate) const BURST: usize = 64;

/// Buffers in the fill ring in copy mode, unless peers get more credits. The kernel writes to them in turn, and each
/// needs a TLB entry on both sides: with 1024 of them a round trip over veth takes 3 % longer, with 2048 5 %. In
/// zero-copy mode the ring is filled completely, because the NIC takes as many buffers as its own ring holds.
const DEFAULT_FILL_LEVEL: usize = 256;

/// The same in frames, where a frame takes several buffers.
const DEFAULT_LONG_FRAMES: usize = 64;

/// The rx ring and the fill ring.
pub(crate) struct Rx {
    pub(crate) arrived: RxQueue,
    fill: FillQueue,
    /// Buffers that the longest frame takes.
    buffers_per_frame: usize,
    /// Buffers that the fill ring should have.
    level: usize,
    /// Buffers that the fill ring can have.
    entries: usize,
    prefetch: PrefetchQueue,
    /// Buffers that the fill ring lacks.
    missing: usize,
    /// Whether the pool was empty at the last refill.
    is_starving: bool,
    /// Whether the kernel, when it has run out of buffers, may wait for a system call.
    zero_copy: bool,
    /// Whether frames arrive only after a system call.
    busy_poll: bool,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: RxCounters,
}

impl Rx {
    pub(crate) fn new((arrived, fill): (RxQueue, FillQueue), entries: u32, per_frame: usize, mode: &Mode) -> Rx {
        let entries = entries as usize;
        let default = if per_frame == 1 { DEFAULT_FILL_LEVEL } else { DEFAULT_LONG_FRAMES * per_frame };
        let level = if mode.zero_copy { entries } else { default.min(entries) };
        Rx {
            arrived,
            fill,
            buffers_per_frame: per_frame,
            missing: level,
            level,
            entries,
            prefetch: PrefetchQueue::new(entries, !mode.zero_copy && per_frame == 1),
            is_starving: false,
            zero_copy: mode.zero_copy,
            busy_poll: mode.busy_poll,
            descriptors: Box::new([FrameDesc::default(); BURST]),
            counters: RxCounters::default(),
        }
    }

    /// Peers may send this many frames. Raise the level, so that each has its buffers.
    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        let wanted = frames.saturating_mul(self.buffers_per_frame).min(self.entries);
        let more = wanted.saturating_sub(self.level);
        self.level += more;
        self.missing += more;
    }

    /// Buffers in the fill ring, or filled and not yet received.
    pub(crate) fn fill_buffers(&self) -> usize {
        self.level - self.missing
    }

    /// Pass received frames to `each`, at most `budget`. Refills the fill ring between bursts, and when nothing has
    /// arrived.
    #[inline]
    pub(crate) fn receive<F: FrameTable>(
        &mut self,
        frames: &mut F,
        budget: usize,
        each: &mut dyn FnMut(Frame),
    ) -> usize {
        let mut received = 0;
        while received < budget {
            // A buffer completes at most one frame.
            let most = (budget - received).min(BURST).min(frames.receivable(&mut self.counters));
            let (count, complete) = self.burst(frames, most, each);
            received += complete;
            // While frames arrive, a few buffers may be missing.
            if self.missing > BURST.min(self.level / 4) || count == 0 {
                self.refill(frames);
            }
            if count < most || most == 0 {
                break;
            }
        }
        // Nothing has arrived: call the kernel if it waits for a call.
        if received == 0 && (self.busy_poll || (self.zero_copy && self.fill.needs_wakeup())) {
            self.counters.wakeups += 1;
            // An error here is about the link, which the send path reports as well.
            let _ = recv(self.arrived.fd().as_raw_fd(), &mut [], MsgFlags::MSG_DONTWAIT);
        }
        received
    }

    /// Take at most this many buffers out of the rx ring. Returns how many, and the number of complete frames.
    #[inline]
    fn burst<F: FrameTable>(&mut self, frames: &mut F, most: usize, each: &mut dyn FnMut(Frame)) -> (usize, usize) {
        let available = self.arrived.nb_avail(most as u32);
        if available == 0 {
            return (0, 0);
        }
        self.prefetch.next(available as usize).for_each(|address| frames.pool().prefetch(address));
        // SAFETY: all buffers in the ring are in the socket's UMEM.
        let count = unsafe { self.arrived.consume(&mut self.descriptors[..most]) };
        self.missing += count;
        let mut complete = 0;
        for descriptor in &self.descriptors[..count] {
            self.counters.bytes += descriptor.lengths().data() as u64;
            self.prefetch.arrived(descriptor.addr());
            match frames.take_received(descriptor, each) {
                Some(is_complete) => complete += usize::from(is_complete),
                None => self.counters.invalid += 1,
            }
        }
        self.counters.frames += complete as u64;
        (count, complete)
    }

    /// Fill the fill ring up to its level, or until the pool is empty.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut impl FrameTable) {
        while self.missing > 0 {
            let wanted = self.missing.min(BURST);
            // The kernel takes buffers in bursts, and publishes later that it has. So the ring may have room for fewer
            // buffers than are missing.
            let room = wanted.min(self.fill.nb_free(wanted as u32) as usize);
            let mut count = 0;
            for entry in &mut self.descriptors[..room] {
                let Some(buffer) = frames.lend_empty() else { break };
                self.prefetch.put(buffer.addr());
                *entry = buffer;
                count += 1;
            }
            // SAFETY: these chunks are of the ring's UMEM and were just given to the kernel; nothing else accesses them.
            let taken = unsafe { self.fill.produce(&self.descriptors[..count]) };
            debug_assert_eq!(taken, count, "there was room");
            self.missing -= count;
            let starving = count < room;
            self.counters.starved += u64::from(starving && !self.is_starving);
            self.is_starving = starving;
            if count < wanted {
                return;
            }
        }
    }
}
