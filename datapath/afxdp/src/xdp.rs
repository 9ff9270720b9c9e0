//! What an open transport holds.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use am_ring::Own;
use am_transport::Caps;

use crate::bypass::Bypass;
use crate::carrier::Carrier;
use crate::interface::Interface;
use crate::lend::LentQueues;
use crate::mode::Mode;
use crate::options::XdpOptions;
use crate::path::Path;
use crate::rules::InstalledRules;
use crate::rx_watch::{RxWatch, TruncationDetector};
use crate::siblings::InterfaceNode;

/// An open queue of a NIC. It stays on the thread that opened it, as its pool does.
///
/// Dropping it frees the interface and the queue at once. Frames that the program still holds stay valid.
pub struct Xdp {
    // Fields are dropped in this order. The program comes first: frames for a closed socket would be lost, while those
    // of a detached program go to the kernel's stack.
    pub(crate) node: InterfaceNode,
    pub(crate) _rules: InstalledRules,
    pub(crate) lent: LentQueues,
    pub(crate) path: Path,
    pub(crate) caps: Caps,
    pub(crate) mode: Mode,
    pub(crate) carrier: Carrier,
    pub(crate) watch: RxWatch,
    pub(crate) bypass: Bypass,
    // What the transport needs to reopen itself.
    pub(crate) options: XdpOptions,
    pub(crate) interface: Interface,
    pub(crate) wake: Arc<Own>,
    /// The largest credit that was announced.
    pub(crate) max_rx_credit: usize,
    pub(crate) truncation: TruncationDetector,
    /// When to look again for an interface that is gone.
    pub(crate) next_search: Instant,
}

impl Xdp {
    /// The mode that the kernel granted, and why not a better one.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(crate) fn set_rx_credit(&mut self, frames: usize) {
        self.max_rx_credit = self.max_rx_credit.max(frames);
        if let Some((rx, _)) = self.path.rings_mut() {
            rx.set_rx_credit(frames);
        }
    }
}

impl fmt::Debug for Xdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xdp").field("caps", &self.caps).field("mode", &self.mode).finish_non_exhaustive()
    }
}
