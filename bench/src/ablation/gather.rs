//! How the messages of a batch enter a TCP stream.

use crate::batching::Batching;
use crate::measure::BATCH;
use crate::plan::How;
use crate::via::am::BUNDLED;

/// Which part joins the messages of a batch into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// The kernel: one write a message, which may wait until they fill a segment (Nagle's algorithm).
    Kernel,
    /// The sender: one write a batch.
    Sender,
    /// The sender: one write for as many messages as `am` coalesces with one doorbell.
    Bundles,
}

impl Gather {
    /// The same as `am` does.
    pub(crate) fn like_ours(how: How) -> Gather {
        if how.bundles { Gather::Bundles } else { Gather::Sender }
    }

    /// The limit of messages in one write.
    pub(super) const fn most(self) -> usize {
        match self {
            Gather::Kernel => 1,
            Gather::Sender => BATCH,
            Gather::Bundles => BUNDLED,
        }
    }

    /// How many messages to send when the caller asks for `asked`.
    pub(super) fn count(self, asked: usize) -> usize {
        if self == Gather::Bundles && asked > 1 { BUNDLED } else { asked }
    }

    /// The batching to report.
    pub(super) const fn batching(self) -> Batching {
        match self {
            Gather::Sender => Batching::Bursts,
            Gather::Kernel | Gather::Bundles => Batching::Shared,
        }
    }
}
