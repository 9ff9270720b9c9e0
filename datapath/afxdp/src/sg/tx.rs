//! The send path for frames of one or several ring entries. Its rings are used as in [`crate::tx`].

use std::os::fd::{AsRawFd, RawFd};

use am_ring::Frame;
use am_wire::Buffer;
use am_wire::frame::ETHERNET_HEADER;
use nix::sys::socket::{MsgFlags, send};
use xsk_rs::{CompQueue, FrameDesc, TxQueue};

use crate::options::Rings;
use crate::rx::BURST;
use crate::stats::TxCounters;
use crate::{XdpOpenError, bind, doorbell};

use super::LongFrames;
use super::tx_ring::TxRing;

/// The most bytes that wait for the doorbell. The kernel copies them on this core, and should find them in the cache.
const MAX_UNSENT_BYTES: usize = 128 << 10;

/// The rings of transmission.
pub(crate) struct Tx {
    // The first field, so that it is unmapped first.
    ring: TxRing,
    /// Keeps the socket open.
    outgoing: TxQueue,
    sent: CompQueue,
    /// Frames that are queued, in the ring, being sent, or in the completion ring.
    frames_in_flight: usize,
    /// The most of them: half of all frames, because reception needs some too.
    max_frames: usize,
    /// The ring entries of these frames.
    pieces_in_flight: usize,
    /// The most entries that both rings can hold.
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
    /// The kernel's, where the ring cannot be mapped.
    pub(crate) fn new(
        (outgoing, sent): (TxQueue, CompQueue),
        rings: &Rings,
        longest: usize,
        frames: &LongFrames,
    ) -> Result<Tx, XdpOpenError> {
        let ring = TxRing::map(bind::tx_fd(&outgoing), rings.tx);
        Ok(Tx {
            ring: ring.map_err(|error| XdpOpenError::system("mapping the transmit ring", error))?,
            outgoing,
            sent,
            frames_in_flight: 0,
            max_frames: (frames.pool().layout().frames / 2).max(1),
            pieces_in_flight: 0,
            max_pieces: rings.tx.min(rings.completion) as usize,
            unsent_bytes: 0,
            max_frame: longest,
            descriptors: Box::new([FrameDesc::default(); BURST]),
            counters: TxCounters::default(),
        })
    }

    fn fd(&self) -> RawFd {
        self.outgoing.fd().as_raw_fd()
    }

    /// Queue a frame, if the ring has room.
    #[inline]
    pub(crate) fn send(&mut self, frames: &mut LongFrames, frame: &Frame) -> bool {
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
            return self.queue_copy(frames, frame).is_some();
        }
        self.queue(frames, frame.share(), pieces);
        if self.unsent_bytes >= MAX_UNSENT_BYTES {
            self.flush(frames);
        }
        true
    }

    #[inline]
    fn has_room(&self, pieces: usize) -> bool {
        self.frames_in_flight < self.max_frames && self.pieces_in_flight + pieces <= self.max_pieces
    }

    #[inline]
    fn queue(&mut self, frames: &mut LongFrames, frame: Frame, pieces: usize) {
        self.counters.frames += 1;
        self.counters.bytes += frame.bytes().len() as u64;
        self.unsent_bytes += frame.bytes().len();
        self.frames_in_flight += 1;
        self.pieces_in_flight += pieces;
        // There is room, since no more pieces are in flight than the ring has entries.
        frames.lend_to_send(frame, |entry| self.ring.write(entry));
    }

    /// Queue a copy of a frame of another pool.
    #[cold]
    fn queue_copy(&mut self, frames: &mut LongFrames, foreign: &Frame) -> Option<()> {
        let copy = frames.copy(foreign)?;
        self.counters.copied += 1;
        let pieces = frames.pieces(copy.bytes().len());
        self.queue(frames, copy, pieces);
        Some(())
    }

    /// Ring the doorbell if the kernel waits for it, and reap sent frames.
    #[inline]
    pub(crate) fn flush(&mut self, frames: &mut LongFrames) {
        if self.pieces_in_flight == 0 {
            return;
        }
        self.unsent_bytes = 0;
        if !self.ring.publish() && self.ring.pending() == 0 {
            return self.reap(frames);
        }
        if self.ring.needs_wakeup() {
            self.kick();
        }
        self.reap(frames);
    }

    #[inline]
    fn kick(&mut self) {
        self.counters.kicks += 1;
        if let Err(error) = send(self.fd(), &[], MsgFlags::MSG_DONTWAIT) {
            let (socket, ring) = (self.fd(), &self.ring);
            doorbell::retry(socket, error, &mut self.counters, &mut || ring.pending());
        }
    }

    /// Return sent frames to the pool.
    #[inline]
    fn reap(&mut self, frames: &mut LongFrames) {
        loop {
            // SAFETY: all chunks in the ring are of the only UMEM.
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
