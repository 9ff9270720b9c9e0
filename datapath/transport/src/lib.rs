//! skeleton of the seam; documentation page to come.
#![forbid(unsafe_code)]

mod caps;
pub use caps::Caps;
use ring::Frame;
use wire::{Address, Flow};

/// The seam: a NIC, or what stands for one, behind four calls.
///
/// A transport may lose, duplicate and reorder frames unless its [`Caps`] say
/// otherwise. It never blocks, and after it is open it never allocates.
pub trait Transport {
    /// What it is and can do; fixed when it is opened.
    fn caps(&self) -> &Caps;

    /// Hand over at most `budget` frames that have arrived; returns how many.
    /// Only frames that [`wire::steer::steer`] sends to this transport's
    /// socket are seen here.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize;

    /// Queue a whole frame. The Ethernet header in it is complete; `to`
    /// repeats its destination for transports that address otherwise.
    ///
    /// # Errors
    /// No room now: the frame comes back. Try again after the next `flush`.
    fn send(&mut self, to: Address, frame: Frame) -> Result<(), Frame>;

    /// Ring the doorbell for everything queued, take back what has been sent.
    /// Called once a turn, with nothing queued too.
    fn flush(&mut self);

    /// A flow id of this node is in use from now on, or no longer: where frames
    /// are steered before they are seen, the steering table follows.
    fn steer(&mut self, flow: Flow, open: bool);

    /// Name and value of every counter it keeps.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}
