//! The endpoint's calls and events of bulk transfers.

use derive_where::derive_where;

use crate::bulk::Completion;
use crate::{Connection, Endpoint, Region, RegionId, Rights, TransferError, TransferId, TransferKind};

/// A transfer that has ended: the argument of [`on_transfer`](Endpoint::on_transfer)'s handler. Each side gets it once.
#[derive_where(Clone, Copy, Debug)]
pub struct Transfer<'a, S> {
    /// The kind of the transfer.
    pub kind: TransferKind,
    /// The transfer's id. For [`Put`](TransferKind::Put) and [`Get`](TransferKind::Get) the call returned it.
    pub id: TransferId,
    /// The connection of the transfer.
    pub connection: Connection,
    /// The region that was written. For [`Served`](TransferKind::Served) and [`Put`](TransferKind::Put) this is a region of the peer.
    pub region: RegionId,
    /// The start of the transfer in that region.
    pub offset: u64,
    /// The length of the transfer in bytes.
    pub length: u64,
    /// How it ended.
    pub result: Result<(), TransferError>,
    /// The endpoint: handlers send through it.
    #[derive_where(skip)]
    pub endpoint: &'a Endpoint<S>,
}

impl<'a, S> Transfer<'a, S> {
    pub(crate) fn of(completion: &Completion, endpoint: &'a Endpoint<S>) -> Self {
        let &Completion { kind, flow, transfer, region, offset, length, result, .. } = completion;
        let (id, connection, region) = (TransferId(transfer), Connection(flow), RegionId(region));
        Transfer { kind, id, connection, region, offset, length, result, endpoint }
    }
}

impl<S> Endpoint<S> {
    /// Register memory: every peer that is connected to this endpoint may access it as `rights` allow.
    pub fn register(&self, memory: impl Into<Box<[u8]>>, rights: Rights) -> Region {
        self.node.borrow_mut().bulk.regions.register(self.id, memory.into(), rights)
    }

    /// Put `data`, at most 4 GiB, into the peer's region, from `offset` on. `data` may be a vector, a boxed or counted slice, or a
    /// mapped file. The node keeps it until the transfer ends, and copies its bytes only into frames.
    ///
    /// Polls send the segments as credit allows, and leave some credit to other messages. The handler of
    /// [`on_transfer`](crate::Endpoint::on_transfer) runs when all bytes are in the peer's memory, or with the error.
    ///
    /// # Errors
    /// The connection is not open, or `data` is too long. Errors of the peer's region are reported when the transfer ends.
    pub fn put(
        &self,
        to: Connection,
        region: RegionId,
        offset: u64,
        data: impl AsRef<[u8]> + 'static,
    ) -> Result<TransferId, TransferError> {
        let mut node = self.node.borrow_mut();
        node.open_flow(to.0)?;
        node.bulk.put((self.id, to.0), (region, offset), Box::new(data))
    }

    /// Get `length` bytes of the peer's region, from `offset` on, into a region of this side, from `into_offset` on. Peers cannot
    /// write there otherwise, unless that region's rights allow it.
    ///
    /// # Errors
    /// The connection is not open, or this side's region is too short.
    pub fn get(
        &self,
        from: Connection,
        region: RegionId,
        offset: u64,
        length: u64,
        into: &Region,
        into_offset: u64,
    ) -> Result<TransferId, TransferError> {
        let mut node = self.node.borrow_mut();
        node.open_flow(from.0)?;
        node.bulk.get((self.id, from.0), (region, offset), length, (into, into_offset))
    }

    /// Cancel a [`put`](Endpoint::put) or [`get`](Endpoint::get) of this side. Segments in flight still arrive. Then both ends get
    /// [`TransferError::Cancelled`], with the byte at which it stopped. Until then the transfer uses its memory.
    ///
    /// Returns whether there was anything left to cancel. A transfer that has ended, or whose last segment was sent, ends as it would
    /// have without this call. So may a get whose last segment the peer has sent.
    pub fn cancel(&self, with: Connection, transfer: TransferId) -> bool {
        self.node.borrow_mut().bulk.cancel(self.id, with.0, transfer)
    }
}
