//! Transfers that are under way: of those whose bytes leave here, and of those whose bytes arrive.

use std::rc::Weak;

use super::extent::{Extent, Key};
use super::regions::Memory;
use super::{Completion, TransferKind};

/// Where the bytes are.
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
    /// Where in the source it starts.
    pub(super) from: u64,
    /// Bytes that are in segments.
    pub(super) at: u64,
    /// All of it is; a transfer of no bytes is one segment, too.
    pub(super) is_sent: bool,
    /// The first byte of those that came back.
    pub(super) lost: u64,
    /// The most credit that the connection has had.
    pub(super) most_credit: usize,
    /// No more of it is to be sent.
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

    /// Everything before this byte is there, as far as is known here once all that comes back is back.
    pub(super) fn arrived(&self) -> u64 {
        self.lost.min(self.at)
    }

    /// Its next segment is the last one, and without data. Whether that is still to come.
    pub(super) fn cancel(&mut self) -> bool {
        self.is_cancelled |= !self.is_sent;
        self.is_cancelled
    }

    /// The bytes from the next segment on; none if their owner has shortened them.
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

/// A transfer whose bytes arrive here: a get of this node, or a put of a peer of which something is missing.
pub(super) struct Arriving {
    pub(super) completion: Completion,
    pub(super) extent: Extent,
    /// Where the bytes of a get go. Each segment of a put names its place.
    pub(super) memory: Option<Memory>,
    pub(super) is_cancelled: bool,
    /// Keeps the region in use while a put is unfinished: the region counts these handles.
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
