//! Translation between the pool's handles on our side and the addresses in the kernel's rings.
//!
//! Only this table turns a [`Frame`] into a descriptor and a descriptor into a frame. It counts how often the kernel
//! holds each chunk. So it rejects an address that the kernel was never given, and returns all frames when the socket
//! is closed.

use std::ptr::{self, NonNull};

use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use libc::xdp_desc;
use xsk_rs::FrameDesc;

use crate::XdpOpenError;
use crate::chunk_layout::HEADROOM;
use crate::errors::MAX_RING_ENTRIES;
use crate::stats::RxCounters;
use crate::umem::Memory;

/// What the rings need of the frames.
pub(crate) trait FrameTable {
    /// The most bytes that wait for the doorbell.
    const MAX_UNSENT_BYTES: usize;

    /// The pool that all frames are from.
    fn pool(&self) -> &Pool;

    /// The number of received chunks that can be taken from the kernel now. Other chunks stay in the ring.
    fn receivable(&mut self, counters: &mut RxCounters) -> usize;

    /// Give an empty chunk to the kernel to receive into; `None` when none is left.
    fn lend_empty(&mut self) -> Option<FrameDesc>;

    /// Take a received chunk from the kernel. Returns whether it completes a frame, which `each` got; `None` if the
    /// frame is lost, or the kernel did not hold the chunk.
    fn take_received(&mut self, descriptor: &FrameDesc, each: &mut dyn FnMut(Frame)) -> Option<bool>;

    /// The number of ring entries for a frame of this length.
    fn pieces(&self, length: usize) -> usize;

    /// Give a frame to the kernel to send: `each` gets an entry for each piece, in order.
    fn lend_to_send(&mut self, frame: Frame, each: impl FnMut(xdp_desc));

    /// Take a sent piece from the kernel. Returns the number of handles that came back with it; `None` for a piece that
    /// the kernel did not hold.
    fn take_sent(&mut self, address: usize) -> Option<usize>;
}

/// The shared memory, as frames of one chunk.
pub(crate) struct Frames {
    pool: Pool,
    /// One descriptor per chunk, pointing to where a frame starts. Only xsk-rs can make them, and it does so once.
    descriptors: Box<[FrameDesc]>,
    /// Handles per chunk that the kernel holds: one for each ring entry. Kept apart from the descriptors, so that this
    /// table, which every returned frame needs, stays in the first-level cache.
    in_flight: Box<[u16]>,
    chunk: usize,
}

// The same frame may be in every entry of the transmit ring.
const _: () = assert!(MAX_RING_ENTRIES <= u16::MAX as u32);

impl Frames {
    pub(crate) fn new(memory: Memory) -> Result<Frames, XdpOpenError> {
        let chunk = memory.layout.chunk;
        let layout = Layout { frames: memory.descriptors.len(), stride: chunk, headroom: HEADROOM };
        let in_flight = vec![0; layout.frames].into_boxed_slice();
        let (pool, memory) = pool_over(memory, layout)?;
        Ok(Frames { pool, descriptors: memory.descriptors.into_boxed_slice(), in_flight, chunk })
    }

    /// Take back one of the handles that the kernel holds, with the chunk's index and where in it the frame starts. By
    /// putting the address into one of our rings, the kernel has given up its access. `None` for an address that the
    /// kernel was never given, which would be a bug of the kernel.
    #[inline]
    fn take_back(&mut self, address: usize, length: usize) -> Option<(u32, u32)> {
        // A chunk's size is a power of two. A division would cost as much as all the rest.
        let (index, start) = (address >> self.chunk.ilog2(), address & (self.chunk - 1));
        let lent = self.in_flight.get_mut(index)?;
        if *lent == 0 || start + length > self.chunk {
            return None;
        }
        *lent -= 1;
        Some((index as u32, start as u32))
    }

    /// Copy a frame that an XDP program or a driver has moved within its chunk. Its descriptor can only point to the
    /// usual start.
    #[cold]
    fn copy_to_start(&self, index: u32, start: u32, length: u32) -> Option<Frame> {
        // SAFETY: the caller has taken it back, and the bytes are in the chunk.
        let shifted = unsafe { self.pool.from_raw_at(index, start, length) };
        self.pool.copy(shifted.bytes())
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
    fn lend_empty(&mut self) -> Option<FrameDesc> {
        let index = self.pool.take()?.into_raw().index as usize;
        self.in_flight[index] += 1;
        Some(self.descriptors[index])
    }

    #[inline]
    fn take_received(&mut self, descriptor: &FrameDesc, each: &mut dyn FnMut(Frame)) -> Option<bool> {
        let length = descriptor.lengths().data();
        let (index, start) = self.take_back(descriptor.addr(), length)?;
        if start as usize != HEADROOM {
            return self.copy_to_start(index, start, length as u32).map(each).map(|()| true);
        }
        // The frame is made where it is passed on. Moving it once more would wait for its own stores, which takes as
        // long as all the rest.
        // SAFETY: taken back, and the bytes are in the chunk.
        each(unsafe { self.pool.from_raw_at(index, start, length as u32) });
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
    fn take_sent(&mut self, address: usize) -> Option<usize> {
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

/// A pool of frames of this layout, over the first chunks of the memory.
///
/// # Errors
/// [`XdpOpenError::Memory`].
pub(crate) fn pool_over(mut memory: Memory, layout: Layout) -> Result<(Pool, Memory), XdpOpenError> {
    let first = memory.descriptors[0];
    // SAFETY: a descriptor of this UMEM, which is not in use yet.
    let frame = unsafe { memory.umem.data_mut(&mut memory.descriptors[0]).contents_mut().as_mut_ptr() };
    // A slice's pointer may reach only that slice. This memory comes from the system, not from Rust, so its address
    // alone reaches all of it.
    let base = NonNull::new(ptr::with_exposed_provenance_mut(frame.addr() - first.addr()));
    let base = base.unwrap_or(NonNull::dangling());
    // SAFETY: `base` is the start of the memory, zeroed by the system, that stays mapped as long as a clone of the UMEM
    // exists, which the pool keeps. xsk-rs gives access to it only in `unsafe` calls, of which the one above makes one
    // that does not touch it. The kernel accesses only chunks whose addresses we put into its rings: frames that
    // `into_raw` gave up, and chunks behind the pool's.
    let pool = unsafe { Pool::over(base, layout, Box::new(memory.umem.clone())) };
    let pool = pool.map_err(|error| XdpOpenError::Memory { what: error.to_string() })?;
    Ok((pool, memory))
}
