//! The transport: what is open.

use std::fmt;

use ring::Frame;
use transport::{Caps, Transport};
use wire::bounce::Back;
use wire::{Address, Flow};

use crate::busy_poll::Deferred;
use crate::close::CloseOnDrop;
use crate::frames::Frames;
use crate::mode::Mode;
use crate::program::Attached;
use crate::rx::Rx;
use crate::tx::Tx;

/// A queue of a NIC, open. It stays on the thread that opened it, as its pool does.
///
/// Dropping it gives interface and queue back at once; frames that the program
/// still holds stay valid.
pub struct Xdp {
    // Dropped in this order. The program first: frames for a closed socket would
    // be lost, those of a detached program go to the kernel's stack. Then the
    // rings, then the socket, then the frames that the kernel had.
    pub(crate) program: Attached,
    pub(crate) rx: Rx,
    pub(crate) tx: Tx,
    pub(crate) _socket: CloseOnDrop,
    pub(crate) frames: Frames,
    pub(crate) _deferred: Deferred,
    pub(crate) caps: Caps,
    pub(crate) mode: Mode,
}

impl Xdp {
    /// Which mode the kernel gave us, and why no better one.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }
}

impl Transport for Xdp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.rx.receive(&mut self.frames, budget, each)
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: Frame) -> Result<(), Frame> {
        self.tx.send(&mut self.frames, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.tx.flush(&mut self.frames);
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.program.steer(flow, open);
    }

    fn way_back(&mut self, flow: Flow, back: &Back) {
        self.program.way_back(flow, back);
    }

    fn full(&mut self, is_full: bool) {
        self.program.full(is_full);
    }

    fn promise(&mut self, frames: usize) {
        self.rx.promise(frames);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.rx.counters.each(each);
        each("rx_blanks", self.rx.blanks() as u64);
        self.tx.counters.each(each);
        self.rx.kernel_statistics(each);
        self.program.counters(each);
    }
}

impl fmt::Debug for Xdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xdp").field("caps", &self.caps).field("mode", &self.mode).finish_non_exhaustive()
    }
}
