//! The send path. The transport pushes frames into the tx ring, and the kernel pops them. The kernel pushes sent frames
//! into the completion ring, and the transport pops them. Both are bounded by [`Rings`]; when the tx ring is full, a
//! frame is refused.

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use am_wire::Buffer;
use am_wire::frame::ETHERNET_HEADER;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::doorbell;
use crate::frames::Frames;
use crate::options::Rings;
use crate::rx::BURST;
use crate::stats::TxCounters;

/// The rings of transmission.
pub(crate) struct Tx {
    outgoing: TxQueue,
    sent: CompQueue,
    /// Frames that are not in the ring yet. Their descriptors are looked up together: one by one, each lookup would
    /// wait for the cache.
    queued: Vec<Frame>,
    /// Frames that are queued, in the ring, being sent, or in the completion ring.
    in_flight: usize,
    /// Entries of the transmit ring.
    entries: u32,
    /// The most that both rings can hold.
    max_in_flight: usize,
    /// The longest frame.
    max_frame: usize,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: TxCounters,
}

impl Tx {
    pub(crate) fn new(outgoing: TxQueue, sent: CompQueue, rings: &Rings, longest: usize) -> Tx {
        Tx {
            outgoing,
            sent,
            queued: Vec::with_capacity(BURST),
            in_flight: 0,
            entries: rings.tx,
            max_in_flight: rings.tx.min(rings.completion) as usize,
            max_frame: longest,
            descriptors: Box::new([FrameDesc::default(); BURST]),
            counters: TxCounters::default(),
        }
    }

    fn fd(&self) -> RawFd {
        self.outgoing.fd().as_raw_fd()
    }

    /// Queue a frame, if the ring has room.
    #[inline]
    pub(crate) fn send(&mut self, frames: &mut Frames, frame: &Frame) -> bool {
        if self.in_flight == self.max_in_flight {
            self.reap(frames);
            if self.in_flight == self.max_in_flight {
                self.counters.full += 1;
                return false;
            }
        }
        let length = frame.bytes().len();
        if !(ETHERNET_HEADER..=self.max_frame).contains(&length) {
            self.counters.invalid += 1;
            return true;
        }
        if !frames.pool().owns(frame) {
            return self.queue_copy(frames, frame);
        }
        self.queue(frames, frame.share(), length);
        true
    }

    #[inline(always)]
    fn queue(&mut self, frames: &mut Frames, frame: Frame, length: usize) {
        self.counters.frames += 1;
        self.counters.bytes += length as u64;
        self.queued.push(frame);
        self.in_flight += 1;
        if self.queued.len() == BURST {
            self.submit(frames);
        }
    }

    /// Queue a copy of a frame of another pool.
    #[cold]
    fn queue_copy(&mut self, frames: &mut Frames, foreign: &Frame) -> bool {
        let Some(copy) = frames.copy(foreign) else { return false };
        self.counters.copied += 1;
        let length = copy.bytes().len();
        self.queue(frames, copy, length);
        true
    }

    /// Put the queued frames into the ring, with one update of the index that the kernel and we share.
    #[inline]
    fn submit(&mut self, frames: &mut Frames) {
        let count = self.queued.len();
        for (descriptor, frame) in self.descriptors.iter_mut().zip(self.queued.drain(..)) {
            *descriptor = frames.lend_to_send(frame);
        }
        // SAFETY: these frames are of the ring's UMEM and given to the kernel. Other handles on them cannot write.
        let taken = unsafe { self.outgoing.produce(&self.descriptors[..count]) };
        debug_assert_eq!(taken, count, "no more frames are in flight than the ring has entries");
    }

    /// Ring the doorbell if the kernel waits for it, and reap sent frames.
    #[inline]
    pub(crate) fn flush(&mut self, frames: &mut Frames) {
        if self.in_flight == 0 {
            return;
        }
        if !self.queued.is_empty() {
            self.submit(frames);
        } else if self.pending() == 0 {
            return self.reap(frames);
        }
        if self.outgoing.needs_wakeup() {
            self.kick();
        }
        self.reap(frames);
    }

    /// Call the kernel until it has taken all frames, or takes no more. In copy mode one call sends 32 frames, unless
    /// the socket option says otherwise. The next flush calls for the rest.
    #[inline]
    fn kick(&mut self) {
        self.counters.kicks += 1;
        if let Err(error) = send(self.fd(), &[], MsgFlags::MSG_DONTWAIT) {
            self.kick_until_sent(error);
        }
    }

    #[cold]
    fn kick_until_sent(&mut self, error: Errno) {
        let (socket, entries) = (self.fd(), self.entries);
        let Tx { outgoing, counters, .. } = self;
        doorbell::retry(socket, error, counters, &mut || entries - outgoing.nb_free_exact());
    }

    /// Frames in the ring that the kernel has not taken.
    #[inline]
    fn pending(&mut self) -> u32 {
        self.entries - self.outgoing.nb_free_exact()
    }

    /// Return sent frames to the pool.
    #[inline]
    fn reap(&mut self, frames: &mut Frames) {
        loop {
            // SAFETY: all frames in the ring are of the only UMEM.
            let count = unsafe { self.sent.consume(&mut *self.descriptors) };
            for descriptor in &self.descriptors[..count] {
                self.in_flight -= usize::from(frames.take_sent(descriptor));
            }
            if count < BURST {
                return;
            }
        }
    }
}
