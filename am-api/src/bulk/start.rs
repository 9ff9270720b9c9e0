//! Transfers that this side asks for.

use std::mem;

use am_proto::{EndpointId, FlowId};
use am_wire::bulk::{Notice, NoticeKind};

use super::extent::Extent;
use super::incoming::PendingGet;
use super::outgoing::{OutgoingTransfer, Source};
use super::{ANSWER, Bulk, Completion, MAX_TRANSFER, Region, RegionId, TransferError, TransferId, TransferKind};

impl Bulk {
    /// Into a peer's region, from this offset on.
    pub(crate) fn put(
        &mut self,
        (endpoint, flow): (EndpointId, FlowId),
        (region, offset): (RegionId, u64),
        data: Box<dyn AsRef<[u8]>>,
    ) -> Result<TransferId, TransferError> {
        let length = (*data).as_ref().len() as u64;
        if length > MAX_TRANSFER {
            return Err(TransferError::TooLong);
        }
        let (kind, transfer, region, result) = (TransferKind::Put, self.next_id(), region.0, Ok(()));
        let completion = Completion { kind, endpoint, flow, transfer, region, offset, length, result };
        self.outgoing.push_back(OutgoingTransfer::new(completion, Source::Lent(data), 0));
        Ok(TransferId(transfer))
    }

    /// Out of a peer's region, from this offset on, into one of ours.
    pub(crate) fn get(
        &mut self,
        (endpoint, flow): (EndpointId, FlowId),
        (region, offset): (RegionId, u64),
        length: u64,
        (into, into_offset): (&Region, u64),
    ) -> Result<TransferId, TransferError> {
        let size = into.memory.try_borrow().map_err(|_| TransferError::Borrowed)?.len() as u64;
        if length > MAX_TRANSFER {
            return Err(TransferError::TooLong);
        }
        if into_offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(TransferError::OutOfBounds);
        }
        let (kind, transfer, result) = (TransferKind::Get, self.next_id() | ANSWER, Ok(()));
        let completion =
            Completion { kind, endpoint, flow, transfer, region: into.id().0, offset: into_offset, length, result };
        self.pending.push(PendingGet {
            completion,
            memory: into.memory.clone(),
            extent: Extent::of(length),
            is_cancelled: false,
        });
        self.pieces.make_room();
        let (region, into, notice) = (region.0, into.id().0, Notice::of(NoticeKind::Get, transfer));
        self.notices.push(flow, Notice { region, into, offset, into_offset, length, ..notice });
        Ok(TransferId(transfer))
    }

    /// Whether there was anything left to stop.
    pub(crate) fn cancel(&mut self, endpoint: EndpointId, flow: FlowId, TransferId(transfer): TransferId) -> bool {
        let is_it = |completion: &Completion| completion.is(endpoint, flow, transfer);
        let mut puts = self.outgoing.iter_mut().filter(|put| put.completion.kind == TransferKind::Put);
        if let Some(put) = puts.find(|put| is_it(&put.completion)) {
            return put.cancel();
        }
        let Some(get) = self.pending.iter_mut().find(|get| is_it(&get.completion)) else { return false };
        if !mem::replace(&mut get.is_cancelled, true) {
            self.notices.push(flow, Notice::of(NoticeKind::Cancel, transfer));
        }
        true
    }

    fn next_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1) & !ANSWER;
        self.next_id
    }
}
