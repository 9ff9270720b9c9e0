//! What a forked child has instead of its parent's transport.

use am_ring::{Layout, Pool};

use crate::{Caps, Command, Frame, Notice, PeerAddressError, Transport};
use am_wire::Address;

/// Nobody sends, so a few will do.
const FRAMES: usize = 4;

/// A transport that leads nowhere, and says so.
#[derive(Debug)]
pub struct Forked {
    caps: Caps,
    why: &'static str,
}

impl Forked {
    /// In place of the transport that is described so. `why` is the link error that it reports.
    pub fn new(parents: &Caps, why: &'static str) -> Forked {
        let layout = Layout { frames: FRAMES, stride: parents.max_frame.next_multiple_of(128), headroom: 0 };
        // Without memory for four frames there is the parent's pool, whose frames are not used, because no connection is open.
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
