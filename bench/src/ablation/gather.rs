//! How the messages of a batch get into a stream.

use crate::batching::Batching;
use crate::measure::BATCH;
use crate::plan::How;
use crate::via::am::BUNDLED;

/// What gathers the messages of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// The kernel: a write a message, and it may wait until they fill a segment (Nagle's algorithm).
    Kernel,
    /// The sender: one write for a batch.
    Sender,
    /// The sender: one write for as many as ours have in their bundles.
    Bundles,
}

impl Gather {
    /// As ours are sent.
    pub(crate) fn like_ours(how: How) -> Gather {
        if how.bundles { Gather::Bundles } else { Gather::Sender }
    }

    /// Messages of one write, at most.
    pub(super) const fn most(self) -> usize {
        match self {
            Gather::Kernel => 1,
            Gather::Sender => BATCH,
            Gather::Bundles => BUNDLED,
        }
    }

    /// What is sent where so many are asked for.
    pub(super) fn count(self, asked: usize) -> usize {
        if self == Gather::Bundles && asked > 1 { BUNDLED } else { asked }
    }

    /// What that is.
    pub(super) const fn batching(self) -> Batching {
        match self {
            Gather::Sender => Batching::Bursts,
            Gather::Kernel | Gather::Bundles => Batching::Shared,
        }
    }
}
