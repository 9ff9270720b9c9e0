//! A frame in the hands of code outside Rust.

/// What remains of a [`Frame`](crate::Frame) while a NIC has it: numbers. The handle still counts; losing the numbers
/// leaks the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the frame stays out until it is made a `Frame` again"]
pub struct RawFrame {
    /// Number of the frame in its pool.
    pub index: u32,
    /// Where in its chunk the frame starts.
    pub start: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Where it starts, in bytes from the pool's base.
    pub offset: usize,
}
