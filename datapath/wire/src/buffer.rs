//! What the protocol needs of a frame's memory.

/// An owned handle on the memory of one frame. On the data path these are [`ring`'s frames](../ring), in the protocol's
/// own tests vectors.
///
/// A frame can be *shared*: the NIC and the retransmit queue hold it at the
/// same time. It can be written only while one handle is left.
pub trait Buffer: Sized {
    /// The frame's bytes, from the destination address on.
    fn bytes(&self) -> &[u8];

    /// All the memory of the frame from the destination address on, to write;
    /// `None` while another handle on it exists.
    fn space(&mut self) -> Option<&mut [u8]>;

    /// Say how many bytes the frame has; more than the space are cut.
    fn set_len(&mut self, len: usize);

    /// A second handle on the same frame.
    fn share(&self) -> Self;
}
