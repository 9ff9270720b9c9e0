//! Frames between two owners: the pool's handles on our side, addresses in the
//! kernel's rings on the other.
//!
//! This table is the one place where a [`Frame`] becomes a descriptor and a
//! descriptor a frame. It counts what the kernel has of each, so that an
//! address that comes out of a ring is believed only if it went in, and so that
//! everything can be brought home when the socket is gone.

use std::ptr::{self, NonNull};

use ring::{Frame, Layout, Pool, RawFrame};
use wire::Buffer;
use xsk_rs::{FrameDesc, Umem};

use crate::OpenError;
use crate::umem::{HEADROOM, Memory};

/// Shared memory as frames.
pub(crate) struct Frames {
    pool: Pool,
    slots: Box<[Slot]>,
    chunk: usize,
    umem: Umem,
}

/// What there is to know of a chunk.
struct Slot {
    /// Its descriptor, at the place where a frame starts. xsk-rs makes these
    /// once and lets nobody else make any.
    descriptor: FrameDesc,
    /// Handles that the kernel has: one per entry in a ring.
    lent: u32,
}

impl Frames {
    pub(crate) fn new(mut memory: Memory) -> Result<Frames, OpenError> {
        let layout = Layout { frames: memory.descriptors.len(), stride: memory.chunk, headroom: HEADROOM };
        let base = base(&mut memory);
        // SAFETY: `base` is the start of `frames` chunks of memory, zeroed by
        // the system, that stay mapped as long as a clone of the UMEM exists,
        // which the pool keeps. xsk-rs gives access to them only in `unsafe`
        // calls, of which `base` above and `outgoing` below make one each,
        // neither of which touches the memory. The kernel accesses only frames
        // whose addresses we put into its rings: see `lend`.
        let pool = unsafe { Pool::over(base, layout, Box::new(memory.umem.clone())) };
        let pool = pool.map_err(|error| OpenError::Memory { what: error.to_string() })?;
        let slots = memory.descriptors.into_iter().map(|descriptor| Slot { descriptor, lent: 0 }).collect();
        Ok(Frames { pool, slots, chunk: memory.chunk, umem: memory.umem })
    }

    /// The pool that all frames are from.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// An empty frame for the kernel to fill; `None` when all are out.
    #[inline]
    pub(crate) fn blank(&mut self) -> Option<FrameDesc> {
        let raw = self.pool.take()?.into_raw();
        Some(self.lend(&raw).descriptor)
    }

    /// A frame for the kernel to send.
    #[inline]
    pub(crate) fn outgoing(&mut self, frame: Frame) -> FrameDesc {
        let raw = frame.into_raw();
        let Slot { descriptor, .. } = self.lend(&raw);
        let mut descriptor = *descriptor;
        if descriptor.lengths().data() != raw.len as usize {
            // xsk-rs lets a length be set only through a writable view of the frame.
            // SAFETY: the descriptor is one of this UMEM's. The view is neither
            // read nor written, and gone at the end of the statement, so that
            // other handles on the frame, if any, do not notice.
            unsafe { self.umem.data_mut(&mut descriptor).cursor().set_pos(raw.len as usize) };
            self.slots[raw.index as usize].descriptor = descriptor;
        }
        descriptor
    }

    /// The kernel gets a handle.
    #[inline]
    fn lend(&mut self, raw: &RawFrame) -> &Slot {
        // Frames come from `take`, which starts them behind the headroom, or
        // from `arrived`, which sees to it.
        debug_assert_eq!(raw.start as usize, HEADROOM);
        let slot = &mut self.slots[raw.index as usize];
        slot.lent += 1;
        slot
    }

    /// The kernel gives a frame back: filled, or sent. `None` for an address
    /// that it was never given, which would be a bug of the kernel's.
    #[inline]
    pub(crate) fn returned(&mut self, descriptor: &FrameDesc) -> Option<Frame> {
        let (index, start) = (descriptor.addr() / self.chunk, descriptor.addr() % self.chunk);
        let length = descriptor.lengths().data();
        let slot = self.slots.get_mut(index)?;
        if slot.lent == 0 || start + length > self.chunk {
            return None;
        }
        slot.lent -= 1;
        // SAFETY: the kernel had a handle on this frame (`lent`), and has just
        // put it into a ring of ours, which is its promise to leave the frame
        // alone. The bytes are in the chunk.
        let frame = unsafe { self.pool.adopt(index as u32, start as u32, length as u32) };
        if start == HEADROOM { Some(frame) } else { self.moved_home(frame, length) }
    }

    /// A frame that an XDP program or a driver has shifted in its chunk goes
    /// back to where frames start: its descriptor knows no other place.
    #[cold]
    fn moved_home(&mut self, frame: Frame, length: usize) -> Option<Frame> {
        let mut home = self.pool.copy(&frame.bytes()[..length.min(self.chunk - HEADROOM)])?;
        home.set_len(length);
        Some(home)
    }

    /// A copy of somebody else's frame in one of ours.
    #[cold]
    pub(crate) fn copy(&self, foreign: &Frame) -> Option<Frame> {
        self.pool.copy(foreign.bytes())
    }
}

/// The first byte of the memory.
fn base(memory: &mut Memory) -> NonNull<u8> {
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
        for (index, slot) in self.slots.iter_mut().enumerate() {
            for _ in 0..std::mem::take(&mut slot.lent) {
                // SAFETY: the kernel had a handle on this frame, and no longer
                // accesses it: whoever drops this has closed the socket.
                drop(unsafe { self.pool.adopt(index as u32, HEADROOM as u32, 0) });
            }
        }
    }
}
