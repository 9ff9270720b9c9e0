//! The send path. The transport pushes frames into the tx ring, and the kernel pops them. The kernel pushes sent frames
//! into the completion ring, and the transport pops them. Both are bounded by [`Rings`]; when the tx ring is full, a
//! frame is refused.

use std::mem;
use std::os::fd::AsRawFd;

use am_ring::Frame;
use am_wire::Buffer;
use am_wire::frame::ETHERNET_HEADER;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::XdpOpenError;
use crate::frames::FrameTable;
use crate::options::Rings;
use crate::rx::BURST;
use crate::stats::TxCounters;
use crate::tx_ring::TxRing;

/// The tx ring and the completion ring.
pub(crate) struct Tx {
    // Before the queue, which keeps it mapped and the socket open.
    ring: TxRing,
    outgoing: TxQueue,
    sent: CompQueue,
    /// Frames from `send` until they are taken out of the completion ring.
    frames_in_flight: usize,
    /// The most frames in flight.
    max_frames: usize,
    /// The ring entries of these frames.
    pieces_in_flight: usize,
    /// The most entries in flight: the size of the smaller ring.
    max_pieces: usize,
    /// Bytes since the last doorbell.
    unsent_bytes: usize,
    /// The longest frame.
    max_frame: usize,
    descriptors: Box<[FrameDesc; BURST]>,
    pub(crate) counters: TxCounters,
}

impl Tx {
    /// # Errors
    /// The kernel's, where the ring cannot be found.
    pub(crate) fn new(
        (outgoing, sent): (TxQueue, CompQueue),
        rings: &Rings,
        max_frame: usize,
        max_frames: usize,
    ) -> Result<Tx, XdpOpenError> {
        let ring = TxRing::find(outgoing.fd().as_raw_fd(), rings.tx);
        Ok(Tx {
            ring: ring.map_err(|error| XdpOpenError::system("finding the transmit ring", error))?,
            outgoing,
            sent,
            frames_in_flight: 0,
            max_frames,
            pieces_in_flight: 0,
            max_pieces: rings.tx.min(rings.completion) as usize,
            unsent_bytes: 0,
            max_frame,
            descriptors: Box::new([FrameDesc::default(); BURST]),
            counters: TxCounters::default(),
        })
    }

    /// Queue a frame. False if there is no room for it.
    #[inline]
    pub(crate) fn send<F: FrameTable>(&mut self, frames: &mut F, frame: &Frame) -> bool {
        let length = frame.bytes().len();
        if !(ETHERNET_HEADER..=self.max_frame).contains(&length) {
            self.counters.invalid += 1;
            return true;
        }
        let pieces = frames.pieces(length);
        if !self.has_room(pieces) {
            self.reap(frames);
            if !self.has_room(pieces) {
                self.counters.full += 1;
                return false;
            }
        }
        if !frames.pool().owns(frame) {
            return self.queue_copy(frames, frame, pieces);
        }
        self.queue(frames, frame.share(), length, pieces);
        if self.unsent_bytes >= F::MAX_UNSENT_BYTES {
            self.flush(frames);
        }
        true
    }

    #[inline]
    fn has_room(&self, pieces: usize) -> bool {
        self.frames_in_flight < self.max_frames && self.pieces_in_flight + pieces <= self.max_pieces
    }

    #[inline(always)]
    fn queue(&mut self, frames: &mut impl FrameTable, frame: Frame, length: usize, pieces: usize) {
        self.counters.frames += 1;
        self.counters.bytes += length as u64;
        self.unsent_bytes += length;
        self.frames_in_flight += 1;
        self.pieces_in_flight += pieces;
        // There is room, since no more pieces are in flight than the ring has entries.
        frames.lend_to_send(frame, |entry| self.ring.write(entry));
        if self.ring.unpublished() >= BURST as u32 {
            self.ring.publish();
        }
    }

    /// Queue a copy of a frame of another pool.
    #[cold]
    fn queue_copy(&mut self, frames: &mut impl FrameTable, foreign: &Frame, pieces: usize) -> bool {
        let Some(copy) = frames.pool().copy(foreign.bytes()) else { return false };
        self.counters.copied += 1;
        self.queue(frames, copy, foreign.bytes().len(), pieces);
        true
    }

    /// Ring the doorbell if the kernel waits for it, and reap sent frames.
    #[inline]
    pub(crate) fn flush(&mut self, frames: &mut impl FrameTable) {
        if self.pieces_in_flight == 0 {
            return;
        }
        self.unsent_bytes = 0;
        if !self.ring.publish() && self.ring.pending() == 0 {
            return self.reap(frames);
        }
        if self.ring.needs_wakeup()
            && let Err(error) = self.call_kernel()
        {
            self.call_again(error);
        }
        self.reap(frames);
    }

    fn call_kernel(&mut self) -> Result<usize, Errno> {
        self.counters.kicks += 1;
        send(self.outgoing.fd().as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT)
    }

    /// A doorbell did not send everything. Call the kernel until it has taken all entries, or takes no more. In copy
    /// mode one call sends 32 frames, unless the socket option says otherwise. The next flush calls for the rest.
    #[cold]
    fn call_again(&mut self, mut error: Errno) {
        let mut left = u32::MAX;
        loop {
            match error {
                // In copy mode the kernel stops at a frame that it had to drop.
                Errno::EBUSY => self.counters.dropped += 1,
                Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV => {
                    self.counters.link_errors += 1;
                    return;
                }
                // The kernel has sent as many as it sends at once, or is out of buffers.
                _ => (),
            }
            let before = mem::replace(&mut left, self.ring.pending());
            self.counters.stalls += u64::from(left == before);
            if left == 0 || left == before {
                return;
            }
            match self.call_kernel() {
                Ok(_) => return,
                Err(next) => error = next,
            }
        }
    }

    /// Return sent frames to the pool.
    #[inline]
    fn reap(&mut self, frames: &mut impl FrameTable) {
        loop {
            // SAFETY: all chunks in the ring are in the socket's UMEM.
            let count = unsafe { self.sent.consume(&mut *self.descriptors) };
            for descriptor in &self.descriptors[..count] {
                if let Some(handles) = frames.take_sent(descriptor.addr()) {
                    self.pieces_in_flight -= 1;
                    self.frames_in_flight -= handles;
                }
            }
            if count < BURST {
                return;
            }
        }
    }
}
