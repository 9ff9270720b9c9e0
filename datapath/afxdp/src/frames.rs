//! Translation between the pool's handles on our side and the addresses in the kernel's rings.
//!
//! Only this table turns a [`Frame`] into an entry of a ring and an entry into a frame. It counts how often the kernel
//! holds each chunk. So it rejects an address that the kernel was never given, and returns all frames when the socket
//! is closed. [`crate::ring`] has the owners of a chunk.

use am_ring::{Frame, Pool};
use libc::xdp_desc;

use crate::chunk_layout::HEADROOM;
use crate::errors::MAX_RING_ENTRIES;
use crate::stats::RxCounters;

/// What the rings need of the frames.
pub(crate) trait FrameTable {
    /// The most bytes that wait for the doorbell.
    const MAX_UNSENT_BYTES: usize;

    /// The pool that all frames are from.
    fn pool(&self) -> &Pool;

    /// The number of received chunks that can be taken from the kernel now. Other chunks stay in the ring.
    fn receivable(&mut self, counters: &mut RxCounters) -> usize;

    /// Give an empty chunk to the kernel to receive into; `None` when none is left.
    fn lend_empty(&mut self) -> Option<u64>;

    /// Take a received chunk from the kernel. Returns whether it completes a frame, which `each` got; `None` if the
    /// frame is lost, or the kernel did not hold the chunk.
    fn take_received(&mut self, entry: &xdp_desc, each: &mut dyn FnMut(Frame)) -> Option<bool>;

    /// The number of ring entries for a frame of this length.
    fn pieces(&self, length: usize) -> usize;

    /// Give a frame to the kernel to send: `each` gets an entry for each piece, in order.
    fn lend_to_send(&mut self, frame: Frame, each: impl FnMut(xdp_desc));

    /// Take a sent piece from the kernel. Returns the number of handles that came back with it; `None` for a piece that
    /// the kernel did not hold.
    fn take_sent(&mut self, address: u64) -> Option<usize>;
}

/// The shared memory, as frames of one chunk.
pub(crate) struct Frames {
    pool: Pool,
    /// Handles per chunk that the kernel holds: one for each ring entry.
    in_flight: Box<[u16]>,
    chunk: u32,
}

// The same frame may be in every entry of the transmit ring.
const _: () = assert!(MAX_RING_ENTRIES <= u16::MAX as u32);

impl Frames {
    /// `pool`: over the memory of a socket, in chunks whose size is a power of two.
    pub(crate) fn new(pool: Pool) -> Frames {
        let layout = pool.layout();
        Frames { pool, in_flight: vec![0; layout.frames].into_boxed_slice(), chunk: layout.stride as u32 }
    }

    /// Take back one of the handles that the kernel holds, with the chunk's index and where in it the frame starts. By
    /// putting the address into one of our rings, the kernel has given up its access. `None` for an address that the
    /// kernel was never given: a bug of the kernel, or of the process that lent the queue.
    #[inline]
    fn take_back(&mut self, address: u64, length: u32) -> Option<(u32, u32)> {
        // A chunk's size is a power of two. A division would cost as much as all the rest.
        let (index, start) = ((address >> self.chunk.ilog2()) as usize, address as u32 & (self.chunk - 1));
        let lent = self.in_flight.get_mut(index)?;
        if *lent == 0 || start.saturating_add(length) > self.chunk {
            return None;
        }
        *lent -= 1;
        Some((index as u32, start))
    }
}

impl FrameTable for Frames {
    const MAX_UNSENT_BYTES: usize = usize::MAX;

    #[inline]
    fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    fn receivable(&mut self, _: &mut RxCounters) -> usize {
        usize::MAX
    }

    #[inline]
    fn lend_empty(&mut self) -> Option<u64> {
        let raw = self.pool.take()?.into_raw();
        self.in_flight[raw.index as usize] += 1;
        Some(raw.offset as u64)
    }

    #[inline]
    fn take_received(&mut self, entry: &xdp_desc, each: &mut dyn FnMut(Frame)) -> Option<bool> {
        if entry.options & libc::XDP_PKT_CONTD != 0 {
            // A frame of several chunks is longer than any of ours.
            self.take_sent(entry.addr);
            return None;
        }
        let (index, start) = self.take_back(entry.addr, entry.len)?;
        // The frame is made where it is passed on. Moving it once more would wait for its own stores, which takes as
        // long as all the rest.
        // SAFETY: taken back, and the bytes are in the chunk.
        each(unsafe { self.pool.from_raw_at(index, start, entry.len) });
        Some(true)
    }

    #[inline]
    fn pieces(&self, _: usize) -> usize {
        1
    }

    #[inline]
    fn lend_to_send(&mut self, frame: Frame, mut each: impl FnMut(xdp_desc)) {
        let raw = frame.into_raw();
        self.in_flight[raw.index as usize] += 1;
        each(xdp_desc { addr: raw.offset as u64, len: raw.len, options: 0 });
    }

    #[inline]
    fn take_sent(&mut self, address: u64) -> Option<usize> {
        let (index, start) = self.take_back(address, 0)?;
        // SAFETY: taken back.
        drop(unsafe { self.pool.from_raw_at(index, start, 0) });
        Some(1)
    }
}

/// The socket is closed by now, so the kernel neither returns nor accesses frames any more.
impl Drop for Frames {
    fn drop(&mut self) {
        for (index, &lent) in self.in_flight.iter().enumerate() {
            for _ in 0..lent {
                // SAFETY: the kernel held a handle on this frame. It no longer accesses the frame, because the owner of
                // this table has closed the socket.
                drop(unsafe { self.pool.from_raw_at(index as u32, HEADROOM as u32, 0) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use am_ring::Layout;

    #[test]
    fn the_kernel_gives_back_only_what_it_has() {
        let mut frames = Frames::new(Pool::heap(Layout { frames: 16, stride: 2048, headroom: HEADROOM }).unwrap());
        let at = frames.lend_empty().unwrap();
        for (address, length) in [
            (at + 2048, 0),
            (at, 1793),
            (at, u32::MAX),
            (at & !2047 | 2047, 2),
            (u64::MAX, 0),
            (u64::MAX, u32::MAX),
            (1 << 32 | at, 0),
        ] {
            assert!(frames.take_back(address, length).is_none(), "{address}, {length}");
        }
        let received = xdp_desc { addr: at, len: 1792, options: 0 };
        let mut length = 0;
        assert_eq!(
            frames.take_received(&received, &mut |frame| length = am_wire::Buffer::bytes(&frame).len()),
            Some(true)
        );
        assert_eq!(length, 1792);
        assert_eq!(frames.take_received(&received, &mut |_| panic!("once")), None);
    }
}
