//! skeleton, to be replaced: the interface that the rest builds on.
use wire::Buffer;

/// How the memory of a pool is cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of frames.
    pub frames: usize,
    /// Bytes from the start of a frame's chunk to the start of the next.
    pub stride: usize,
    /// Bytes kept free before the first byte of a frame (the kernel's XDP headroom).
    pub headroom: usize,
}

/// A pool of frames; cheap to clone, stays on the thread that made it (`!Send`).
#[derive(Clone, Debug)]
pub struct Pool;

impl Pool {
    /// A pool over memory of its own.
    pub fn heap(_layout: Layout) -> Pool { todo!() }
    /// An unused frame, empty; `None` when all are out.
    pub fn take(&self) -> Option<Frame> { todo!() }
    /// Frames that `take` could give now.
    pub fn available(&self) -> usize { todo!() }
    /// How the memory is cut.
    pub fn layout(&self) -> Layout { todo!() }
}

/// An owned handle on a frame; `Send`. Dropping the last handle gives the frame back to its pool.
#[derive(Debug)]
pub struct Frame;

impl Buffer for Frame {
    fn bytes(&self) -> &[u8] { todo!() }
    fn space(&mut self) -> Option<&mut [u8]> { todo!() }
    fn set_len(&mut self, _len: usize) { todo!() }
    fn share(&self) -> Self { todo!() }
}
