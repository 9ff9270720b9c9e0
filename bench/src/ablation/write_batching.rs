//! How the messages of a batch enter a TCP stream.

use crate::batching::Batching;
use crate::driver::am::COALESCED_BATCH;
use crate::measure::BATCH;
use crate::plan::DriverOptions;

/// Which part joins the messages of a batch into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBatching {
    /// The kernel: one write a message, which may wait until they fill a segment (Nagle's algorithm).
    Kernel,
    /// The sender: one write a batch.
    Sender,
    /// The sender: one write for as many messages as `am` coalesces with one doorbell.
    Coalesced,
}

impl WriteBatching {
    /// The same as `am` does.
    pub(crate) fn like_ours(how: DriverOptions) -> WriteBatching {
        if how.coalesce { WriteBatching::Coalesced } else { WriteBatching::Sender }
    }

    /// The limit of messages in one write.
    pub(super) const fn most(self) -> usize {
        match self {
            WriteBatching::Kernel => 1,
            WriteBatching::Sender => BATCH,
            WriteBatching::Coalesced => COALESCED_BATCH,
        }
    }

    /// How many messages to send when the caller asks for `asked`.
    pub(super) fn count(self, asked: usize) -> usize {
        if self == WriteBatching::Coalesced && asked > 1 { COALESCED_BATCH } else { asked }
    }

    /// The batching to report.
    pub(super) const fn batching(self) -> Batching {
        match self {
            WriteBatching::Sender => Batching::Bursts,
            WriteBatching::Kernel | WriteBatching::Coalesced => Batching::Shared,
        }
    }
}
