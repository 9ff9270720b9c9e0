//! Translation between the pool's handles on our side and the addresses in the kernel's rings.
//!
//! Only this table turns a [`Frame`] into a descriptor and a descriptor into a frame. It counts how often the kernel
//! holds each chunk. So it rejects an address that the kernel was never given, and returns all frames when the socket
//! is closed.

use std::ptr::{self, NonNull};

use am_ring::{Frame, Layout, Pool, RawFrame};
use am_wire::Buffer;
use xsk_rs::{FrameDesc, Umem};

use crate::XdpOpenError;
use crate::chunk_layout::HEADROOM;
use crate::errors::MAX_RING_ENTRIES;
use crate::umem::Memory;

/// The shared memory, as frames.
pub(crate) struct Frames {
    pool: Pool,
    /// One descriptor per chunk, pointing to where a frame starts. Only xsk-rs can make them, and it does so once.
    descriptors: Box<[FrameDesc]>,
    /// Handles per chunk that the kernel holds: one for each ring entry. Kept apart from the descriptors, so that this
    /// table, which every returned frame needs, stays in the first-level cache.
    in_flight: Box<[u16]>,
    chunk: usize,
    umem: Umem,
}

// The same frame may be in every entry of the transmit ring.
const _: () = assert!(MAX_RING_ENTRIES <= u16::MAX as u32);

impl Frames {
    pub(crate) fn new(mut memory: Memory) -> Result<Frames, XdpOpenError> {
        let chunk = memory.layout.chunk;
        let layout = Layout { frames: memory.descriptors.len(), stride: chunk, headroom: HEADROOM };
        let base = memory_base(&mut memory);
        // SAFETY: `base` is the start of `frames` chunks of memory, zeroed by
        // the system, that stay mapped as long as a clone of the UMEM exists,
        // which the pool keeps. xsk-rs gives access to them only in `unsafe`
        // calls, of which `base` above and `outgoing` below make one each,
        // neither of which touches the memory. The kernel accesses only frames
        // whose addresses we put into its rings: see `lend`.
        let pool = unsafe { Pool::over(base, layout, Box::new(memory.umem.clone())) };
        let pool = pool.map_err(|error| XdpOpenError::Memory { what: error.to_string() })?;
        let lent = vec![0; memory.descriptors.len()].into_boxed_slice();
        let descriptors = memory.descriptors.into_boxed_slice();
        Ok(Frames { pool, descriptors, in_flight: lent, chunk, umem: memory.umem })
    }

    /// The pool that all frames are from.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Give an empty frame to the kernel to receive into; `None` when the pool is empty.
    #[inline]
    pub(crate) fn lend_empty(&mut self) -> Option<FrameDesc> {
        let raw = self.pool.take()?.into_raw();
        Some(*self.lend(&raw))
    }

    /// Give a frame to the kernel to send.
    #[inline]
    pub(crate) fn lend_to_send(&mut self, frame: Frame) -> FrameDesc {
        let raw = frame.into_raw();
        let mut descriptor = *self.lend(&raw);
        if descriptor.lengths().data() != raw.len as usize {
            // xsk-rs sets a length only through a writable view of the frame.
            // SAFETY: the descriptor is one of this UMEM's. The view is neither read nor written, and ends with the statement, so
            // other handles on the frame are not affected.
            unsafe { self.umem.data_mut(&mut descriptor).cursor().set_pos(raw.len as usize) };
            self.descriptors[raw.index as usize] = descriptor;
        }
        descriptor
    }

    /// Count one more handle that the kernel holds.
    #[inline]
    fn lend(&mut self, raw: &RawFrame) -> &FrameDesc {
        // `Pool::take` starts frames behind the headroom, and received frames are moved there.
        debug_assert_eq!(raw.start as usize, HEADROOM);
        self.in_flight[raw.index as usize] += 1;
        &self.descriptors[raw.index as usize]
    }

    /// Take a received frame from the kernel. False if the kernel did not hold it.
    #[inline]
    pub(crate) fn take_received(&mut self, descriptor: &FrameDesc, each: &mut dyn FnMut(Frame)) -> bool {
        let Some(ChunkOffset { index, start }) = self.take_back(descriptor) else { return false };
        let length = descriptor.lengths().data() as u32;
        if start as usize != HEADROOM {
            return self.copy_to_start(index, start, length).map(each).is_some();
        }
        // The frame is made where it is passed on. Moving it once more would wait for its own stores, which takes as long as all
        // the rest.
        // SAFETY: taken back, and the bytes are in the chunk.
        each(unsafe { self.pool.from_raw_at(index, start, length) });
        true
    }

    /// Take a sent frame from the kernel. False if the kernel did not hold it.
    #[inline]
    pub(crate) fn take_sent(&mut self, descriptor: &FrameDesc) -> bool {
        let Some(ChunkOffset { index, start }) = self.take_back(descriptor) else { return false };
        // SAFETY: taken back.
        drop(unsafe { self.pool.from_raw_at(index, start, 0) });
        true
    }

    /// Take back one of the handles that the kernel holds. By putting the address into one of our rings, the kernel has
    /// given up its access. `None` for an address that the kernel was never given, which would be a bug of the kernel.
    #[inline]
    fn take_back(&mut self, descriptor: &FrameDesc) -> Option<ChunkOffset> {
        // A chunk's size is a power of two. A division would cost as much as all the rest.
        let (index, start) = (descriptor.addr() >> self.chunk.ilog2(), descriptor.addr() & (self.chunk - 1));
        let lent = self.in_flight.get_mut(index)?;
        if *lent == 0 || start + descriptor.lengths().data() > self.chunk {
            return None;
        }
        *lent -= 1;
        Some(ChunkOffset { index: index as u32, start: start as u32 })
    }

    /// Copy a frame that an XDP program or a driver has moved within its chunk. Its descriptor can only point to the
    /// usual start.
    #[cold]
    fn copy_to_start(&self, index: u32, start: u32, length: u32) -> Option<Frame> {
        // SAFETY: the caller has taken it back, and the bytes are in the chunk.
        let shifted = unsafe { self.pool.from_raw_at(index, start, length) };
        self.pool.copy(shifted.bytes())
    }

    /// Copy a frame of another pool into one of ours.
    #[cold]
    pub(crate) fn copy(&self, foreign: &Frame) -> Option<Frame> {
        self.pool.copy(foreign.bytes())
    }
}

/// A chunk, and where in it a frame starts.
struct ChunkOffset {
    index: u32,
    start: u32,
}

/// The first byte of the memory.
pub(crate) fn memory_base(memory: &mut Memory) -> NonNull<u8> {
    let first = memory.descriptors[0];
    // SAFETY: a descriptor of this UMEM, which is not in use yet.
    let frame = unsafe { memory.umem.data_mut(&mut memory.descriptors[0]).contents_mut().as_mut_ptr() };
    // A slice's pointer may reach only that slice. This memory comes from the system, not from Rust, so its address
    // alone reaches all of it.
    let address = frame.addr() - first.addr();
    NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
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
