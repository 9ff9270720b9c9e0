//! A handle on a frame.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::slice;

use am_wire::Buffer;

use crate::region::{self, Region};
use crate::slot::Slot;

/// An owned handle on a frame. Dropping the last handle returns the frame to its pool, from any thread. The memory
/// lives until the pool and all frames are dropped.
///
/// A frame starts empty, after its chunk's headroom. [`Buffer::share`] makes a second handle, and a frame can be written
/// while there is only one. Each handle has its own length.
///
/// It is `Send` and not `Sync`: only one thread at a time uses a handle. So the first `share` needs no atomic
/// read-modify-write, nor does dropping a frame that is not shared.
///
/// ```compile_fail,E0277
/// # let layout = am_ring::Layout { frames: 1, stride: 64, headroom: 0 };
/// let frame = am_ring::Pool::heap(layout).unwrap().take().unwrap();
/// std::thread::scope(|threads| { threads.spawn(|| am_wire::Buffer::share(&frame)); }); // share first, then send
/// ```
pub struct Frame {
    region: NonNull<Region>,
    /// The first byte, somewhere in the chunk.
    data: NonNull<u8>,
    /// The frame's number in the lower half, its length in the upper. One word, because reading the word after a store to
    /// half of it waits until that store, and all before it, have reached the cache.
    number_and_length: u64,
    _not_sync: PhantomData<core::cell::Cell<()>>,
}

const _: () = assert!(size_of::<Frame>() == 24 && size_of::<Option<Frame>>() == 24);

// SAFETY: the handles of one frame share its count, which is atomic, and its bytes, which are written only through the
// last handle (`Slot::is_unique` orders that after the others' reads). Frames share with their pool only atomics, and
// lists that the owner's thread alone touches. The region outlives its frames.
unsafe impl Send for Frame {}

impl Frame {
    /// # Safety
    /// One of the frame's handles is counted and has no owner yet, and `data` is in its chunk, with `len` bytes behind it.
    #[inline]
    pub(crate) unsafe fn new(region: NonNull<Region>, index: u32, data: NonNull<u8>, len: u32) -> Frame {
        Frame { region, data, number_and_length: pack(index, len), _not_sync: PhantomData }
    }

    #[inline]
    fn number(&self) -> u32 {
        self.number_and_length as u32
    }

    #[inline]
    fn len(&self) -> u32 {
        (self.number_and_length >> 32) as u32
    }

    /// At most the frame's room.
    #[inline(always)]
    fn write_len(&mut self, len: u32) {
        let word = pack(self.number(), len);
        // SAFETY: the place is this handle's own. The compiler turns any other store of the word into one of the half that changes.
        unsafe { ptr::from_mut(&mut self.number_and_length).write_volatile(word) };
    }

    /// With `N` bytes, which `fill` writes.
    ///
    /// # Safety
    /// This is the only handle, and the frame has room for `N` bytes.
    #[inline(always)]
    pub(crate) unsafe fn filled<const N: usize>(mut self, fill: impl FnOnce(&mut [u8; N])) -> Frame {
        debug_assert!(self.is_unique() && N <= self.room());
        self.slot().witness.write();
        // SAFETY: as in `space`, by the caller.
        fill(unsafe { self.data.cast().as_mut() });
        self.write_len(N as u32);
        self
    }

    #[inline]
    pub(crate) fn region(&self) -> NonNull<Region> {
        self.region
    }

    #[inline]
    fn region_ref(&self) -> &Region {
        // SAFETY: the region lives until its last frame has returned to the pool, and this one has not.
        unsafe { self.region.as_ref() }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        self.region_ref().slot(self.number())
    }

    /// The offset of the frame in its chunk.
    #[inline]
    fn start(&self) -> usize {
        self.data.as_ptr() as usize - self.region_ref().chunk(self.number()).as_ptr() as usize
    }

    /// Bytes from the frame's start to the end of its chunk.
    #[inline]
    pub fn room(&self) -> usize {
        self.region_ref().chunk_end(self.number()).as_ptr() as usize - self.data.as_ptr() as usize
    }

    /// The frame's number in its pool.
    #[inline]
    pub fn index(&self) -> usize {
        self.number() as usize
    }

    /// The offset of the frame from the pool's base, in bytes, as in a NIC's descriptor.
    #[inline]
    pub fn offset(&self) -> usize {
        self.data.as_ptr() as usize - self.region_ref().base.as_ptr() as usize
    }

    /// Whether this is the only handle. If so it stays the only one until it is shared.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.slot().is_unique()
    }

    /// Turn the handle into numbers, for a NIC or code in another language.
    /// [`Pool::from_raw_at`](crate::Pool::from_raw_at) turns them back into a handle.
    #[inline]
    pub fn into_raw(self) -> RawFrame {
        let raw = RawFrame { index: self.number(), start: self.start() as u32, len: self.len(), offset: self.offset() };
        let _still_counted = ManuallyDrop::new(self);
        raw
    }
}

/// A handle as numbers, while a NIC or code in another language has the frame. It still counts as a handle; losing the
/// numbers leaks the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the frame leaks unless this is turned back into a `Frame`"]
pub struct RawFrame {
    /// The frame's number in its pool.
    pub index: u32,
    /// The offset of the frame in its chunk.
    pub start: u32,
    /// Its length in bytes.
    pub len: u32,
    /// The offset of the frame from the pool's base, in bytes.
    pub offset: usize,
}

#[inline]
fn pack(number: u32, length: u32) -> u64 {
    number as u64 | (length as u64) << 32
}

impl Buffer for Frame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.slot().witness.read();
        // SAFETY: `len` is at most the room, all of which is initialised memory of the chunk. Nobody writes it while this
        // handle exists, except through `space`, which borrows this handle mutably.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len() as usize) }
    }

    #[inline]
    fn space(&mut self) -> Option<&mut [u8]> {
        if !self.is_unique() {
            return None;
        }
        self.slot().witness.write();
        // SAFETY: as in `bytes`; and no other handle exists, nor can one be made while this one is borrowed.
        Some(unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.room()) })
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.write_len(len.min(self.room()) as u32);
    }

    #[inline]
    fn share(&self) -> Frame {
        self.slot().add_handle();
        let Frame { region, data, number_and_length, _not_sync } = *self;
        Frame { region, data, number_and_length, _not_sync }
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        if self.slot().drop_handle() {
            // SAFETY: that was the last handle, and this one is not used again.
            unsafe { region::come_home(self.region, self.number()) }
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("index", &self.number()).field("len", &self.len()).finish_non_exhaustive()
    }
}
