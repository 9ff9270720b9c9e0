//! Bulk transfers, as an endpoint asks for them and hears of them.

use derive_where::derive_where;

use crate::bulk::Completion;
use crate::{Connection, Endpoint, Region, RegionId, Rights, TransferError, TransferId, TransferKind};

/// What [`on_transfer`](Endpoint::on_transfer)'s handler gets: a transfer has ended. Each transfer ends once at either side.
#[derive_where(Clone, Copy, Debug)]
pub struct Transfer<'a, S> {
    /// What it was.
    pub kind: TransferKind,
    /// Which one: what the call returned for [`Put`](TransferKind::Put) and [`Get`](TransferKind::Get).
    pub id: TransferId,
    /// The connection that it used.
    pub connection: Connection,
    /// The region that was written; of [`Served`](TransferKind::Served) and [`Put`](TransferKind::Put) the peer's.
    pub region: RegionId,
    /// Where in that region it starts.
    pub offset: u64,
    /// Its bytes.
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
    /// Let peers of this endpoint use this memory, as far as `rights` go.
    pub fn register(&self, memory: impl Into<Box<[u8]>>, rights: Rights) -> Region {
        self.node.borrow_mut().bulk.regions.register(self.id, memory.into(), rights)
    }

    /// Put `data` into the peer's region, from `offset` on: at most 4 GiB.
    /// `data` is kept until the transfer is over, and not copied before its
    /// bytes go into frames; a vector, a boxed or counted slice, a mapped file.
    ///
    /// Segments leave with polls, as credit allows; some credit is left to
    /// other messages. [`on_transfer`](crate::Endpoint::on_transfer) hears when
    /// all of it is in the peer's memory, or why not.
    ///
    /// # Errors
    /// The connection is not open, or `data` is too long. What the peer says
    /// of its region comes with the end of the transfer.
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

    /// Get `length` bytes of the peer's region, from `offset` on, into one of
    /// ours, from `into_offset` on. Nothing but this transfer can write there
    /// unless that region's rights say so.
    ///
    /// # Errors
    /// The connection is not open, or our region is too short.
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

    /// Stop a [`put`](Endpoint::put) or [`get`](Endpoint::get) of this side. What is on its way still arrives; then both ends hear that
    /// it was [cancelled](TransferError::Cancelled), and after which byte. Until then what was lent to it is in use.
    ///
    /// Returns whether there was anything left to stop: a transfer that is over, or on its way as a whole, ends as it would
    /// have without this call. So may a get whose last bytes have left at the other side.
    pub fn cancel(&self, with: Connection, transfer: TransferId) -> bool {
        self.node.borrow_mut().bulk.cancel(self.id, with.0, transfer)
    }
}
