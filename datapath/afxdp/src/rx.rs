//! The receive path. The kernel pushes received frames into the rx ring, and the transport pops them. The transport
//! pushes empty frames into the fill ring, and the kernel pops them. Both are bounded by [`Rings`](crate::Rings); when
//! no frame is left for the fill ring, the kernel drops what arrives.

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use nix::sys::socket::{MsgFlags, recv};
use xsk_rs::{FillQueue, FrameDesc, RxQueue};

use crate::frames::Frames;
use crate::prefetch::PrefetchQueue;
use crate::stats;
use crate::stats::RxCounters;

/// Ring entries that are moved at once, with one update of the index that the kernel and we share.
pub(crate) const BURST: usize = 64;

/// Buffers in the fill ring in copy mode, unless more credit is announced. The kernel writes to them in turn, and each
/// needs a TLB entry on both sides: with 1024 of them a round trip over veth takes 3 % longer, with 2048 5 %. In
/// zero-copy mode the ring is filled entirely, since the NIC takes as many as its own ring holds.
const DEFAULT_FILL_LEVEL: usize = 256;

/// The rings of reception.
pub(crate) struct Rx {
    arrived: RxQueue,
    fill: FillQueue,
    /// Buffers that the fill ring should have.
    level: usize,
    /// Buffers that the fill ring can have.
    entries: usize,
    prefetch: PrefetchQueue,
    /// Buffers that the fill ring lacks.
    missing: usize,
    /// Whether the pool was empty at the last refill.
    is_starving: bool,
    /// In this mode the kernel may run out of buffers and then wait for a system call.
    zero_copy: bool,
    /// Whether frames arrive only after a system call.
    busy_poll: bool,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: RxCounters,
}

impl Rx {
    pub(crate) fn new(arrived: RxQueue, fill: FillQueue, entries: u32, zero_copy: bool, busy_poll: bool) -> Rx {
        let descriptors = Box::new([FrameDesc::default(); BURST]);
        let entries = entries as usize;
        let level = if zero_copy { entries } else { DEFAULT_FILL_LEVEL.min(entries) };
        Rx {
            arrived,
            fill,
            missing: level,
            level,
            entries,
            prefetch: PrefetchQueue::new(entries, zero_copy),
            is_starving: false,
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

    /// Peers may send this many frames: have a buffer for each.
    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        let more = frames.min(self.entries).saturating_sub(self.level);
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
    pub(crate) fn receive(&mut self, frames: &mut Frames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut received = 0;
        while received < budget {
            let burst = self.burst(frames, budget - received, each);
            received += burst;
            // A few missing buffers wait until nothing arrives.
            if self.missing > BURST.min(self.level / 4) || burst == 0 {
                self.refill(frames);
            }
            if burst < BURST {
                break;
            }
        }
        if received == 0 {
            self.wake_kernel();
        }
        received
    }

    /// Receive at most [`BURST`] frames.
    #[inline]
    fn burst(&mut self, frames: &mut Frames, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let most = budget.min(BURST);
        let there = self.arrived.nb_avail(most as u32);
        if there == 0 {
            return 0;
        }
        self.prefetch.next(there as usize).for_each(|address| frames.pool().prefetch(address));
        // SAFETY: all frames in the ring are of the only UMEM.
        let count = unsafe { self.arrived.consume(&mut self.descriptors[..most]) };
        self.missing += count;
        for descriptor in &self.descriptors[..count] {
            self.counters.frames += 1;
            self.counters.bytes += descriptor.lengths().data() as u64;
            self.prefetch.arrived(descriptor.addr());
            if !frames.take_received(descriptor, each) {
                self.counters.invalid += 1;
            }
        }
        count
    }

    /// Fill the fill ring up to its level, or until the pool is empty.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Frames) {
        while self.missing > 0 {
            let wanted = self.missing.min(BURST);
            // The kernel takes buffers in bursts and publishes that later. So the ring may have less room than buffers
            // are missing.
            let room = wanted.min(self.fill.nb_free(wanted as u32) as usize);
            let count = self.push_buffers(frames, room);
            let starving = count < room;
            self.counters.starved += u64::from(starving && !self.is_starving);
            self.is_starving = starving;
            if count < wanted {
                return;
            }
        }
    }

    fn push_buffers(&mut self, frames: &mut Frames, most: usize) -> usize {
        let mut count = 0;
        for place in &mut self.descriptors[..most] {
            let Some(blank) = frames.lend_empty() else { break };
            self.prefetch.put(blank.addr());
            *place = blank;
            count += 1;
        }
        // SAFETY: these frames are of the ring's UMEM and were just given to the kernel; nothing else accesses them.
        let taken = unsafe { self.fill.produce(&self.descriptors[..count]) };
        debug_assert_eq!(taken, count, "there was room");
        self.missing -= count;
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

/// Have the kernel process received frames and empty buffers.
#[inline]
pub(crate) fn wake_rx(socket: RawFd) {
    // An error here is about the link, which the send path reports as well.
    let _ = recv(socket, &mut [], MsgFlags::MSG_DONTWAIT);
}
