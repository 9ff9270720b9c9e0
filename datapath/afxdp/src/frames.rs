//! Frames between two owners: the pool's handles on our side, addresses in the
//! kernel's rings on the other.
//!
//! This table is the one place where a [`Frame`] becomes a descriptor and a
//! descriptor a frame. It counts what the kernel has of each, so that an
//! address that comes out of a ring is believed only if it went in, and so that
//! everything can be brought home when the socket is gone.

use std::ptr::{self, NonNull};

use am_ring::{Frame, Layout, Pool, RawFrame};
use am_wire::Buffer;
use xsk_rs::{FrameDesc, Umem};

use crate::OpenError;
use crate::cut::HEADROOM;
use crate::errors::MOST_ENTRIES;
use crate::umem::Memory;

/// Shared memory as frames.
pub(crate) struct Frames {
    pool: Pool,
    /// By chunk, each at the place where a frame starts. xsk-rs makes these
    /// once and lets nobody else make any.
    descriptors: Box<[FrameDesc]>,
    /// By chunk: handles that the kernel has, one per entry in a ring. Apart
    /// from the descriptors, so that what is looked at for each frame that
    /// comes back stays in the first cache.
    lent: Box<[u16]>,
    chunk: usize,
    umem: Umem,
}

// A frame may be in every entry of the transmit ring.
const _: () = assert!(MOST_ENTRIES <= u16::MAX as u32);

impl Frames {
    pub(crate) fn new(mut memory: Memory) -> Result<Frames, OpenError> {
        let chunk = memory.cut.chunk;
        let layout = Layout { frames: memory.descriptors.len(), stride: chunk, headroom: HEADROOM };
        let base = base(&mut memory);
        // SAFETY: `base` is the start of `frames` chunks of memory, zeroed by
        // the system, that stay mapped as long as a clone of the UMEM exists,
        // which the pool keeps. xsk-rs gives access to them only in `unsafe`
        // calls, of which `base` above and `outgoing` below make one each,
        // neither of which touches the memory. The kernel accesses only frames
        // whose addresses we put into its rings: see `lend`.
        let pool = unsafe { Pool::over(base, layout, Box::new(memory.umem.clone())) };
        let pool = pool.map_err(|error| OpenError::Memory { what: error.to_string() })?;
        let lent = vec![0; memory.descriptors.len()].into_boxed_slice();
        let descriptors = memory.descriptors.into_boxed_slice();
        Ok(Frames { pool, descriptors, lent, chunk, umem: memory.umem })
    }

    /// The pool that all frames are from.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// An empty frame for the kernel to fill; `None` when all are out.
    #[inline]
    pub(crate) fn blank(&mut self) -> Option<FrameDesc> {
        let raw = self.pool.take()?.into_raw();
        Some(*self.lend(&raw))
    }

    /// A frame for the kernel to send.
    #[inline]
    pub(crate) fn outgoing(&mut self, frame: Frame) -> FrameDesc {
        let raw = frame.into_raw();
        let mut descriptor = *self.lend(&raw);
        if descriptor.lengths().data() != raw.len as usize {
            // xsk-rs lets a length be set only through a writable view of the frame.
            // SAFETY: the descriptor is one of this UMEM's. The view is neither
            // read nor written, and gone at the end of the statement, so that
            // other handles on the frame, if any, do not notice.
            unsafe { self.umem.data_mut(&mut descriptor).cursor().set_pos(raw.len as usize) };
            self.descriptors[raw.index as usize] = descriptor;
        }
        descriptor
    }

    /// The kernel gets a handle.
    #[inline]
    fn lend(&mut self, raw: &RawFrame) -> &FrameDesc {
        // Frames come from `take`, which starts them behind the headroom, or
        // from `arrived`, which sees to it.
        debug_assert_eq!(raw.start as usize, HEADROOM);
        self.lent[raw.index as usize] += 1;
        &self.descriptors[raw.index as usize]
    }

    /// The kernel gives a frame back that has arrived. Whether it was right to.
    #[inline]
    pub(crate) fn arrived(&mut self, descriptor: &FrameDesc, each: &mut dyn FnMut(Frame)) -> bool {
        let Some(Place { index, start }) = self.claim(descriptor) else { return false };
        let length = descriptor.lengths().data() as u32;
        if start as usize != HEADROOM {
            return self.moved_home(index, start, length).map(each).is_some();
        }
        // Made where it is passed on: a frame that is moved once more waits for
        // its own stores, which takes as long as all the rest.
        // SAFETY: claimed, and the bytes are in the chunk.
        each(unsafe { self.pool.adopt(index, start, length) });
        true
    }

    /// The kernel gives a frame back that it has sent. Whether it was right to.
    #[inline]
    pub(crate) fn sent(&mut self, descriptor: &FrameDesc) -> bool {
        let Some(Place { index, start }) = self.claim(descriptor) else { return false };
        // SAFETY: claimed.
        drop(unsafe { self.pool.adopt(index, start, 0) });
        true
    }

    /// Take back one of the handles that the kernel has. It has just put the
    /// address into a ring of ours, which is its promise to leave the frame
    /// alone. `None` for an address that it was never given, which would be a
    /// bug of the kernel's.
    #[inline]
    fn claim(&mut self, descriptor: &FrameDesc) -> Option<Place> {
        // A chunk is a power of two: dividing would cost as much as all the rest.
        let (index, start) = (descriptor.addr() >> self.chunk.ilog2(), descriptor.addr() & (self.chunk - 1));
        let lent = self.lent.get_mut(index)?;
        if *lent == 0 || start + descriptor.lengths().data() > self.chunk {
            return None;
        }
        *lent -= 1;
        Some(Place { index: index as u32, start: start as u32 })
    }

    /// A frame that an XDP program or a driver has shifted in its chunk goes
    /// back to where frames start: its descriptor knows no other place.
    #[cold]
    fn moved_home(&self, index: u32, start: u32, length: u32) -> Option<Frame> {
        // SAFETY: the caller has claimed it, and the bytes are in the chunk.
        let shifted = unsafe { self.pool.adopt(index, start, length) };
        self.pool.copy(shifted.bytes())
    }

    /// A copy of somebody else's frame in one of ours.
    #[cold]
    pub(crate) fn copy(&self, foreign: &Frame) -> Option<Frame> {
        self.pool.copy(foreign.bytes())
    }
}

/// A chunk, and where in it a frame starts.
struct Place {
    index: u32,
    start: u32,
}

/// The first byte of the memory.
pub(crate) fn base(memory: &mut Memory) -> NonNull<u8> {
    let first = memory.descriptors[0];
    // SAFETY: a descriptor of this UMEM, which nobody uses yet.
    let frame = unsafe { memory.umem.data_mut(&mut memory.descriptors[0]).contents_mut().as_mut_ptr() };
    // What a slice's pointer may reach is that slice. This memory comes from
    // the system, not from Rust, so its address alone reaches all of it.
    let address = frame.addr() - first.addr();
    NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
}

/// The socket is closed, so the kernel gives back nothing more, nor accesses it.
impl Drop for Frames {
    fn drop(&mut self) {
        for (index, &lent) in self.lent.iter().enumerate() {
            for _ in 0..lent {
                // SAFETY: the kernel had a handle on this frame, and no longer
                // accesses it: whoever drops this has closed the socket.
                drop(unsafe { self.pool.adopt(index as u32, HEADROOM as u32, 0) });
            }
        }
    }
}
