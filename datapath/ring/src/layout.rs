//! How memory is divided into frames, and memory from the heap.

use core::ptr::NonNull;
use std::alloc::{Layout as Bytes, alloc_zeroed, dealloc};

/// How the memory of a pool is divided into frames.
///
/// ```text
///  base                    base + stride                    base + frames·stride
///  ├── headroom ──┬─ room ─┼── headroom ──┬─ room ─┼── …           ┤
///                 └ first byte of frame 0 └ of frame 1
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of frames.
    pub frames: usize,
    /// Bytes from the start of a frame's chunk to the start of the next.
    pub stride: usize,
    /// Bytes kept free before the first byte of a frame (the kernel's XDP headroom).
    pub headroom: usize,
}

/// A [`Layout`] that no pool can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No frames.
    #[error("a pool needs at least one frame")]
    Empty,
    /// More frames than a frame's index can count.
    #[error("{0} frames are more than a pool can count; the most are {most}", most = Layout::MAX_FRAMES)]
    TooMany(usize),
    /// Nothing is left of a chunk behind its headroom, or it is longer than 4 GiB.
    #[error("a chunk of {stride} bytes must be longer than its {headroom} bytes of headroom and shorter than 4 GiB")]
    Chunk {
        /// As asked for.
        stride: usize,
        /// As asked for.
        headroom: usize,
    },
    /// Larger than the address space, or than the memory that the system gives.
    #[error(
        "no memory for {frames} frames of {stride} bytes: take fewer or shorter ones, or see what `ulimit -v` and `ulimit -d` say"
    )]
    Memory {
        /// As asked for.
        frames: usize,
        /// As asked for.
        stride: usize,
    },
}

impl Layout {
    /// The limit of a pool's frames. (The two largest numbers are marks in the lists of free frames.)
    pub const MAX_FRAMES: usize = u32::MAX as usize - 2;

    /// Frames of at most `longest` bytes, without headroom. They start on separate cache lines, and not all at the same offset of a page:
    /// otherwise their first lines would share a few sets of the cache.
    pub fn spread(frames: usize, longest: usize) -> Layout {
        let stride = longest.next_multiple_of(ALIGN);
        Layout { frames, stride: if stride.is_multiple_of(1024) { stride + ALIGN } else { stride }, headroom: 0 }
    }

    /// Bytes of the whole pool.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.frames * self.stride
    }

    /// Whether a pool can be divided like this.
    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        let Layout { frames, stride, headroom } = *self;
        match frames {
            0 => return Err(LayoutError::Empty),
            _ if frames > Self::MAX_FRAMES => return Err(LayoutError::TooMany(frames)),
            _ if headroom >= stride || stride > u32::MAX as usize => {
                return Err(LayoutError::Chunk { stride, headroom });
            }
            _ => (),
        }
        let bytes = frames.checked_mul(stride).filter(|bytes| isize::try_from(*bytes).is_ok());
        bytes.map(|_| ()).ok_or(LayoutError::Memory { frames, stride })
    }
}

/// If the stride is a multiple of this, each frame starts on its own cache line.
const ALIGN: usize = 128;

/// Zeroed memory for a layout; freed when dropped. The system provides each page when it is first used.
#[derive(Debug)]
pub(crate) struct Heap {
    start: NonNull<u8>,
    bytes: Bytes,
}

// SAFETY: it is nothing but the right to free the memory, which any thread may do.
unsafe impl Send for Heap {}
// SAFETY: a shared reference gives only the address.
unsafe impl Sync for Heap {}

impl Heap {
    /// For a layout that has been checked.
    pub(crate) fn new(layout: &Layout) -> Result<Heap, LayoutError> {
        let none = LayoutError::Memory { frames: layout.frames, stride: layout.stride };
        // The allocator fills memory with zeros itself, and so uses all of its pages, if it is asked for this alignment.
        let bytes = layout.bytes().checked_add(ALIGN - 1).and_then(|bytes| Bytes::from_size_align(bytes, 1).ok());
        let bytes = bytes.ok_or(none)?;
        // SAFETY: the size is not 0, because a checked layout has at least one frame of at least one byte.
        let start = unsafe { alloc_zeroed(bytes) };
        Ok(Heap { start: NonNull::new(start).ok_or(none)?, bytes })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        // SAFETY: there are `ALIGN - 1` bytes more than the layout has.
        unsafe { self.start.add(self.start.align_offset(ALIGN)) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this very layout, and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.bytes) }
    }
}
