//! Transfers under way: outgoing ones and arriving ones.

use std::rc::Weak;

use super::extent::{Extent, Key};
use super::regions::Memory;
use super::{Completion, TransferKind};

/// The source of a transfer's bytes.
pub(crate) enum Source {
    /// Lent by the caller of `put`.
    Lent(Box<dyn AsRef<[u8]>>),
    /// A region of this side, which a peer gets.
    Region(Memory),
}

/// A transfer whose bytes leave here: a put of this side, or a get of a peer.
pub(super) struct OutgoingTransfer {
    pub(super) completion: Completion,
    pub(super) source: Source,
    /// The start of the transfer in the source.
    pub(super) from: u64,
    /// The number of bytes that were put into segments.
    pub(super) at: u64,
    /// All segments were sent. A transfer of no bytes has one segment too.
    pub(super) is_sent: bool,
    /// The first byte of the segments that returned undelivered. `u64::MAX` if none did.
    pub(super) lost: u64,
    /// The most credit that the connection has had.
    pub(super) most_credit: usize,
    /// No more bytes are to be sent.
    pub(super) is_cancelled: bool,
}

impl OutgoingTransfer {
    pub(super) fn new(completion: Completion, source: Source, from: u64) -> Self {
        OutgoingTransfer {
            completion,
            source,
            from,
            at: 0,
            is_sent: false,
            lost: u64::MAX,
            most_credit: 1,
            is_cancelled: false,
        }
    }

    /// Everything before this byte has arrived at the peer. Valid once all undelivered segments have returned.
    pub(super) fn arrived(&self) -> u64 {
        self.lost.min(self.at)
    }

    /// Make the next segment the last one, without data. Returns whether it is still to be sent.
    pub(super) fn cancel(&mut self) -> bool {
        self.is_cancelled |= !self.is_sent;
        self.is_cancelled
    }

    /// Pass the bytes from the next segment on to `take`. They are empty if their owner has shortened them.
    #[inline]
    pub(super) fn with_rest(&self, take: impl FnOnce(&[u8])) {
        let at = (self.from + self.at) as usize;
        match &self.source {
            Source::Lent(data) => take((**data).as_ref().get(at..).unwrap_or_default()),
            Source::Region(memory) => {
                take(memory.try_borrow().as_deref().map_or(&[], |bytes| bytes.get(at..).unwrap_or_default()));
            }
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.source {
            Source::Region(memory) => self.is_cancelled || memory.try_borrow().is_ok(),
            Source::Lent(_) => true,
        }
    }
}

/// A transfer whose bytes arrive here: a get of this node, or an incomplete put of a peer.
pub(super) struct Arriving {
    pub(super) completion: Completion,
    pub(super) extent: Extent,
    /// Where the bytes of a get go. Each segment of a put names its place.
    pub(super) memory: Option<Memory>,
    pub(super) is_cancelled: bool,
    /// Keeps the region in use until a put is complete: the region counts these handles.
    pub(super) _open: Weak<()>,
}

impl Arriving {
    pub(super) fn key(&self) -> Key {
        (self.completion.flow, self.completion.transfer)
    }

    pub(super) fn is_get(&self) -> bool {
        self.completion.kind == TransferKind::Get
    }
}
