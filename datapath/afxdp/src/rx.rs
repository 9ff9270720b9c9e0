//! The receive path. The kernel pushes received frames into the rx ring, and the transport pops them. The transport
//! pushes empty frames into the fill ring, and the kernel pops them. Both are bounded by [`Rings`](crate::Rings); when
//! no frame is left for the fill ring, the kernel drops what arrives.

use am_ring::Frame;

use crate::frames::FrameTable;
use crate::prefetch::PrefetchQueue;
use crate::ring::RxRings;
use crate::stats::RxCounters;

/// The most ring entries that move at once, with one update of the index shared with the kernel.
pub(crate) const BURST: usize = 64;

/// Buffers in the fill ring in copy mode, unless peers get more credits. The kernel writes to them in turn, and each
/// needs a TLB entry on both sides: with 1024 of them a round trip over veth takes 3 % longer, with 2048 5 %. In
/// zero-copy mode the ring is filled completely, because the NIC takes as many buffers as its own ring holds.
const DEFAULT_FILL_LEVEL: usize = 256;

/// Frames for which the fill ring has buffers in copy mode, where a frame takes several of them.
const DEFAULT_LONG_FRAMES: usize = 64;

/// The rx ring and the fill ring, and what the kernel should have of them.
pub(crate) struct Rx {
    pub(crate) rings: RxRings,
    /// Buffers that the longest frame takes.
    buffers_per_frame: usize,
    /// Buffers that the fill ring should have.
    level: usize,
    prefetch: PrefetchQueue,
    /// Buffers that the fill ring lacks.
    missing: usize,
    /// Whether the pool was empty at the last refill.
    is_starving: bool,
    /// Whether the kernel, when it has run out of buffers, may wait for a system call.
    zero_copy: bool,
    /// Whether frames arrive only after a system call.
    busy_poll: bool,
    pub(crate) counters: RxCounters,
}

impl Rx {
    pub(crate) fn new(rings: RxRings, per_frame: usize, zero_copy: bool, busy_poll: bool) -> Rx {
        let entries = rings.fill.entries() as usize;
        let default = if per_frame == 1 { DEFAULT_FILL_LEVEL } else { DEFAULT_LONG_FRAMES * per_frame };
        let level = if zero_copy { entries } else { default.min(entries) };
        Rx {
            rings,
            buffers_per_frame: per_frame,
            missing: level,
            level,
            prefetch: PrefetchQueue::new(entries, !zero_copy && per_frame == 1),
            is_starving: false,
            zero_copy,
            busy_poll,
            counters: RxCounters::default(),
        }
    }

    /// Peers may send this many frames. Raise the level, so that each has its buffers.
    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        let wanted = frames.saturating_mul(self.buffers_per_frame).min(self.rings.fill.entries() as usize);
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
        if received == 0 && (self.busy_poll || (self.zero_copy && self.rings.fill.needs_wakeup())) {
            self.counters.wakeups += 1;
            self.rings.wake();
        }
        received
    }

    /// Take at most this many buffers out of the rx ring. Returns how many, and the number of complete frames.
    #[inline]
    fn burst<F: FrameTable>(&mut self, frames: &mut F, most: usize, each: &mut dyn FnMut(Frame)) -> (usize, usize) {
        let (count, mut complete) = (self.rings.rx.available().min(most), 0);
        if count == 0 {
            return (0, 0);
        }
        self.prefetch.next(count).for_each(|address| frames.pool().prefetch(address as usize));
        self.missing += count;
        for entry in self.rings.rx.drain(count) {
            self.counters.bytes += u64::from(entry.len);
            self.prefetch.arrived(entry.addr);
            match frames.take_received(&entry, each) {
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
            let room = wanted.min(self.rings.fill.room(wanted as u32) as usize);
            let mut count = 0;
            while count < room
                && let Some(address) = frames.lend_empty()
            {
                self.prefetch.put(address);
                self.rings.fill.write(address);
                count += 1;
            }
            self.rings.fill.publish();
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
