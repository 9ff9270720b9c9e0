//! The transport that a forked child has in place of its parent's.

use am_ring::{Layout, Pool};

use crate::{Caps, Command, Frame, Notice, PeerAddressError, Transport};
use am_wire::Address;

/// The frames of its pool. Nobody sends, so a few are enough.
const FRAMES: usize = 4;

/// A transport that drops every frame, and reports a link error.
#[derive(Debug)]
pub struct Forked {
    caps: Caps,
    why: &'static str,
}

impl Forked {
    /// In place of the transport with these caps. `why` is the link error that it reports.
    pub fn new(parents: &Caps, why: &'static str) -> Forked {
        let layout = Layout { frames: FRAMES, stride: parents.max_frame.next_multiple_of(128), headroom: 0 };
        // If there is no memory for four frames, take the parent's pool. No connection is open, so its frames are not used.
        let pool = Pool::heap(layout).unwrap_or_else(|_| parents.pool.clone());
        Forked { caps: Caps { pool, wake: None, out_of_band: None, ..parents.clone() }, why }
    }
}

impl Transport for Forked {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, _budget: usize, _each: &mut dyn FnMut(Frame)) -> usize {
        0
    }

    fn send(&mut self, _to: Address, _frame: &Frame) -> bool {
        true
    }

    fn control(&mut self, _command: Command<'_>) -> Result<(), PeerAddressError> {
        Ok(())
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        each(Notice::LinkError(self.why));
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}
