//! Transfers that this side asks for.

use std::mem;

use proto::FlowId;
use wire::bulk::{Notice, What};

use super::extent::{Extent, Key};
use super::regions::Memory;
use super::sending::{Sending, Source};
use super::{ANSWER, Bulk, LONGEST, Over, Region, RegionId, TransferError, TransferId, TransferKind};
use crate::{Port, Remote};

/// A get that is not here yet.
pub(super) struct Asked {
    pub(super) over: Over,
    pub(super) memory: Memory,
    pub(super) extent: Extent,
    is_cancelled: bool,
}

impl Asked {
    pub(super) fn key(&self) -> Key {
        (self.over.flow, self.over.transfer)
    }
}

impl Port {
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
        to: Remote,
        region: RegionId,
        offset: u64,
        data: impl AsRef<[u8]> + 'static,
    ) -> Result<TransferId, TransferError> {
        let length = data.as_ref().len() as u64;
        let mut shared = self.shared.borrow_mut();
        shared.open_flow(to.0)?;
        if length > LONGEST {
            return Err(TransferError::OutOfBounds);
        }
        let transfer = shared.bulk.next_id();
        let over = self.over(TransferKind::Put, to.0, transfer, (region, offset, length));
        shared.bulk.sending.push_back(Sending::new(over, Source::Lent(Box::new(data)), 0));
        Ok(TransferId(transfer))
    }

    /// Get `length` bytes of the peer's region, from `offset` on, into one of
    /// ours, from `into_offset` on. Nothing but this transfer can write there
    /// unless that region's rights say so.
    ///
    /// # Errors
    /// The connection is not open, or our region is too short.
    pub fn get(
        &self,
        from: Remote,
        region: RegionId,
        offset: u64,
        length: u64,
        into: &Region,
        into_offset: u64,
    ) -> Result<TransferId, TransferError> {
        let mut shared = self.shared.borrow_mut();
        shared.open_flow(from.0)?;
        let size = into.memory.try_borrow().map_err(|_| TransferError::Busy)?.len() as u64;
        if length > LONGEST || into_offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(TransferError::OutOfBounds);
        }
        let transfer = shared.bulk.next_id() | ANSWER;
        let over = self.over(TransferKind::Get, from.0, transfer, (into.id(), into_offset, length));
        shared.bulk.asked.push(Asked {
            over,
            memory: into.memory.clone(),
            extent: Extent::of(length),
            is_cancelled: false,
        });
        shared.bulk.pieces.make_room();
        let notice = Notice {
            region: region.0,
            into: into.id().0,
            offset,
            into_offset,
            length,
            ..Notice::of(What::Get, transfer)
        };
        shared.bulk.notices.push(from.0, notice);
        Ok(TransferId(transfer))
    }

    /// Stop a [`put`](Port::put) or [`get`](Port::get) of this side. What is on its way still arrives; then both ends hear that
    /// it was [cancelled](TransferError::Cancelled), and after which byte. Until then what was lent to it is in use.
    ///
    /// Returns whether there was anything left to stop: a transfer that is over, or on its way as a whole, ends as it would
    /// have without this call. So may a get whose last bytes have left at the other side.
    pub fn cancel(&self, with: Remote, transfer: TransferId) -> bool {
        let Bulk { sending, asked, notices, .. } = &mut self.shared.borrow_mut().bulk;
        let is_it = |over: &Over| over.is(self.id, with.0, transfer.0);
        if let Some(put) = sending.iter_mut().find(|put| put.over.kind == TransferKind::Put && is_it(&put.over)) {
            return put.cancel();
        }
        let Some(get) = asked.iter_mut().find(|get| is_it(&get.over)) else { return false };
        if !mem::replace(&mut get.is_cancelled, true) {
            notices.push(with.0, Notice::of(What::Cancel, transfer.0));
        }
        true
    }

    fn over(&self, kind: TransferKind, flow: FlowId, transfer: u32, place: (RegionId, u64, u64)) -> Over {
        let (RegionId(region), offset, length) = place;
        Over { kind, endpoint: self.id, flow, transfer, region, offset, length, result: Ok(()) }
    }
}

impl Bulk {
    fn next_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1) & !ANSWER;
        self.next_id
    }
}
