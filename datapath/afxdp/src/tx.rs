//! The send path. The transport pushes frames into the tx ring, and the kernel pops them. The kernel pushes sent frames
//! into the completion ring, and the transport pops them. Both are bounded by [`Rings`](crate::Rings); when the tx
//! ring is full, a frame is refused.

use std::mem;

use am_ring::Frame;
use am_wire::Buffer;
use am_wire::frame::ETHERNET_HEADER;
use nix::errno::Errno;

use crate::frames::FrameTable;
use crate::ring::TxRings;
use crate::rx::BURST;
use crate::stats::TxCounters;

/// The tx ring and the completion ring, and how much is in flight through them.
pub(crate) struct Tx {
    rings: TxRings,
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
    /// Whether the socket has lost its interface.
    pub(crate) is_unbound: bool,
    pub(crate) counters: TxCounters,
}

impl Tx {
    pub(crate) fn new(rings: TxRings, max_frame: usize, max_frames: usize) -> Tx {
        Tx {
            frames_in_flight: 0,
            max_frames,
            pieces_in_flight: 0,
            max_pieces: rings.tx.entries().min(rings.completion.entries()) as usize,
            unsent_bytes: 0,
            max_frame,
            is_unbound: false,
            counters: TxCounters::default(),
            rings,
        }
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
        frames.lend_to_send(frame, |entry| self.rings.tx.write(entry));
        if self.rings.tx.unpublished() >= BURST as u32 {
            self.rings.tx.publish();
        }
    }

    /// Queue a copy of a frame of another pool.
    #[cold]
    fn queue_copy(&mut self, frames: &mut impl FrameTable, foreign: &Frame, pieces: usize) -> bool {
        let Some(copy) = frames.pool().copy(foreign.bytes()) else {
            self.counters.full += 1;
            return false;
        };
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
        if !self.rings.tx.publish() && self.rings.tx.pending() == 0 {
            return self.reap(frames);
        }
        if self.rings.tx.needs_wakeup()
            && let Err(error) = self.call_kernel()
        {
            self.call_again(error);
        }
        self.reap(frames);
    }

    fn call_kernel(&mut self) -> Result<(), Errno> {
        self.counters.kicks += 1;
        self.rings.wake()
    }

    /// Ring the doorbell, even where nothing waits for it. The call fails where the socket has lost its interface.
    pub(crate) fn check_socket(&mut self) {
        if let Err(error) = self.rings.wake() {
            self.count_failure(error);
        }
    }

    /// Count a failed doorbell. False where the link is down: then another one is useless.
    fn count_failure(&mut self, error: Errno) -> bool {
        match error {
            // In copy mode the kernel stops at a frame that it had to drop.
            Errno::EBUSY => self.counters.dropped += 1,
            Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV => {
                self.counters.link_errors += 1;
                self.is_unbound |= error != Errno::ENETDOWN;
                return false;
            }
            // The kernel has sent as many as it sends at once, or is out of buffers.
            _ => (),
        }
        true
    }

    /// A doorbell did not send everything. Call the kernel until it has taken all entries, or takes no more. In copy
    /// mode one call sends 32 frames, unless the socket option says otherwise. The next flush calls for the rest.
    #[cold]
    fn call_again(&mut self, mut error: Errno) {
        let mut left = u32::MAX;
        loop {
            if !self.count_failure(error) {
                return;
            }
            let before = mem::replace(&mut left, self.rings.tx.pending());
            self.counters.stalls += u64::from(left == before);
            if left == 0 || left == before {
                return;
            }
            match self.call_kernel() {
                Ok(()) => return,
                Err(next) => error = next,
            }
        }
    }

    /// Return sent frames to the pool.
    #[inline]
    fn reap(&mut self, frames: &mut impl FrameTable) {
        for address in self.rings.completion.drain(usize::MAX) {
            match frames.take_sent(address) {
                Some(handles) => {
                    // Another process may write anything into the rings of its queue. The counts must not wrap.
                    self.pieces_in_flight = self.pieces_in_flight.saturating_sub(1);
                    self.frames_in_flight = self.frames_in_flight.saturating_sub(handles);
                }
                None => self.counters.invalid_completions += 1,
            }
        }
    }
}
