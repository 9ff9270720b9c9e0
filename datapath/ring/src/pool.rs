//! A pool of frames.

use core::any::Any;
use core::fmt;
use core::ptr::NonNull;

use am_wire::Buffer;

use crate::frame::Frame;
use crate::layout::{Heap, Layout, LayoutError};
use crate::mapping::Mapping;
use crate::region::{self, Region};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The limit of prefetched bytes: a copy of more than a page prefetches by itself, and lines that were fetched too
/// early are gone when the copy reaches them.
const AHEAD: usize = 4096;

/// Prefetch the first of these bytes, so that a later copy does not wait for each line.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    bytes[..bytes.len().min(AHEAD)].iter().step_by(LINE).for_each(|byte| fetch(byte));
}

#[inline]
fn fetch(line: *const u8) {
    // SAFETY: a hint, which does nothing with an address that leads nowhere.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// A pool of frames: memory cut into equal chunks.
///
/// Cloning is cheap; a clone is the same pool. A pool stays on the thread that made it (it is not `Send`), so taking a
/// frame, and returning one on that thread, need no atomic read-modify-write. Its frames may go to any thread. Their
/// memory lives until pool and frames are gone, in any order.
///
/// ```compile_fail,E0277
/// # let layout = am_ring::Layout { frames: 1, stride: 64, headroom: 0 };
/// let pool = am_ring::Pool::heap(layout).unwrap();
/// std::thread::spawn(move || pool.take()); // another thread: take frames there, or make a pool there
/// ```
pub struct Pool {
    region: NonNull<Region>,
}

impl Pool {
    /// A pool over memory of its own, zeroed. The system provides each page when a frame in it is first used.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn heap(layout: Layout) -> Result<Pool, LayoutError> {
        layout.check()?;
        let heap = Heap::new(&layout)?;
        // SAFETY: `heap` is that much initialised memory, ours alone, until it is dropped.
        unsafe { Pool::over(heap.base(), layout, Box::new(heap)) }
    }

    /// The same in huge pages, if the system has some.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn huge(layout: Layout) -> Result<Pool, LayoutError> {
        layout.check()?;
        let bytes = layout.bytes().next_multiple_of(2 << 20);
        let none = LayoutError::Memory { frames: layout.frames, stride: layout.stride };
        let mapping = Mapping::private(bytes).map_err(|_| none)?;
        mapping.prefer_huge();
        // SAFETY: it is that much zeroed memory, ours alone, until it is dropped.
        unsafe { Pool::over(mapping.base(), layout, Box::new(mapping)) }
    }

    /// A pool over memory of another owner (AF_XDP's UMEM). `keep` is dropped when the pool and all of its frames are
    /// gone, on the thread where that happens.
    ///
    /// # Errors
    /// See [`LayoutError`].
    ///
    /// # Safety
    /// `base` is the start of `layout.bytes()` bytes of initialised memory that
    /// stay where they are until `keep` is dropped. The headroom of each chunk
    /// is its owner's (DPDK keeps an mbuf in it). In that time nothing else
    /// accesses the others, except for a NIC and the like those of frames that were
    /// given to it by [`Frame::into_raw`] and not taken back: it may read them,
    /// and may write those that were given to it while they were
    /// [unique](Frame::is_unique).
    pub unsafe fn over(base: NonNull<u8>, layout: Layout, keep: Box<dyn Any + Send>) -> Result<Pool, LayoutError> {
        layout.check()?;
        Ok(Pool { region: Region::open(base, layout, keep) })
    }

    #[inline]
    fn region(&self) -> &Region {
        // SAFETY: the region lives as long as a handle on the pool does.
        unsafe { self.region.as_ref() }
    }

    /// A free frame, empty; `None` if all are in use. Its bytes are whatever was written to them last.
    #[inline]
    pub fn take(&self) -> Option<Frame> {
        let region = self.region();
        let index = region.pop()?;
        region.slot(index).first_handle();
        // SAFETY: the frame was free, so the one handle it now has is ours to give.
        Some(unsafe { Frame::new(self.region, index, region.start(index), 0) })
    }

    /// A free frame of `N` bytes, which `fill` writes; `None` if all are in use, or have room for fewer.
    #[inline(always)]
    pub fn take_filled<const N: usize>(&self, fill: impl FnOnce(&mut [u8; N])) -> Option<Frame> {
        let region = self.region();
        if region.room < N {
            return None;
        }
        // SAFETY: a free frame starts behind the headroom, so it has this room, and this is its only handle.
        self.take().map(|frame| unsafe { frame.filled(fill) })
    }

    /// A frame with these bytes; `None` if all are in use, or there are too many bytes.
    pub fn copy(&self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.take()?;
        frame.space()?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        frame.set_len(bytes.len());
        Some(frame)
    }

    /// Frames that [`take`](Self::take) could give now.
    #[inline]
    pub fn available(&self) -> usize {
        self.region().available()
    }

    /// How the memory is divided.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.region().layout
    }

    /// Where the memory starts.
    pub fn base(&self) -> NonNull<u8> {
        self.region().base
    }

    /// Prefetch the cache line at this distance from the base. A frame that another core or a NIC has written takes 50
    /// ns and more, in which other work can be done.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        fetch(self.region().base.as_ptr().wrapping_add(offset));
    }

    /// Prefetch the first `bytes` bytes of the frame that [`Pool::take`] gives next, so that a writer of many large
    /// frames does not wait for each line.
    #[inline]
    pub fn prefetch_next(&self, bytes: usize) {
        if let Some(index) = self.region().peek() {
            let Layout { stride, headroom, .. } = self.layout();
            let start = index as usize * stride + headroom;
            (start..start + bytes.min(AHEAD)).step_by(LINE).for_each(|at| self.prefetch(at));
        }
    }

    /// Whether a frame is this pool's.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.region() == self.region
    }

    /// Whether this is a handle on the same pool.
    #[inline]
    pub fn is_same_pool(&self, other: &Pool) -> bool {
        self.region == other.region
    }

    /// The handle again that [`Frame::into_raw`] turned into numbers, with the
    /// frame's bytes now from `start` in its chunk, `len` long: where a NIC put
    /// them. Each handle counts: a frame that is being sent while the
    /// retransmit queue has it too is two handles, and this gives one.
    ///
    /// # Safety
    /// A handle of this pool's frame `index` was turned into numbers and has
    /// not been taken back, and nothing but handles accesses the frame from now
    /// on, unless another raw handle still lets it read. `start + len` is at
    /// most the stride.
    #[inline]
    pub unsafe fn from_raw_at(&self, index: u32, start: u32, len: u32) -> Frame {
        let region = self.region();
        debug_assert!((index as usize) < region.layout.frames, "no frame {index}");
        debug_assert!(start as usize + len as usize <= region.layout.stride, "{start} + {len} leaves the chunk");
        debug_assert!(region.slot(index).is_out(), "frame {index} is free");
        // SAFETY: the caller's: the handle is counted and has no owner yet, and `start` is in the chunk.
        unsafe { Frame::new(self.region, index, region.chunk(index).add(start as usize), len) }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        self.region().add_pool();
        Pool { region: self.region }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: this handle exists and is not used again; it never left the
        // thread that opened the pool, because it is not `Send`.
        unsafe { region::drop_pool(self.region) }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("layout", &self.layout()).field("available", &self.available()).finish()
    }
}
