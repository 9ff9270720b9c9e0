//! Starts this side's transfers, and handles incoming segments and notices. Each segment is copied into the region that it
//! names, if that region's rights allow it. A peer can send anything, so each segment is checked by itself.

use std::mem;
use std::rc::Weak;

use am_proto::{Core, Delivery, EndpointId, FlowId};
use am_ring::Frame;
use am_transport::Transport;
use am_wire::Kind;
use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::long::Head;

use super::Rights;
use super::extent::Extent;
use super::lent::{self, Data, Lent, TURNS_SHARE};
use super::messages::{Io, is_of_message};
use super::regions::Memory;
use super::under_way::{Arriving, OutgoingTransfer, Source};
use super::{
    ANSWER, Bulk, Completion, MAX_OWN_TRANSFERS, MAX_REFUSED, MAX_TRANSFER, MAX_TRANSFERS, Region, RegionId,
    TransferError, TransferId, TransferKind,
};

/// The most unfinished puts of one flow while half of [`MAX_TRANSFERS`] are in use.
const MAX_BEGUN_WHEN_CROWDED: usize = 32;

impl Bulk {
    /// Start to put `data` into a peer's region, from this offset on.
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
        if self.outgoing.len() >= MAX_OWN_TRANSFERS {
            return Err(TransferError::TooMany);
        }
        let (kind, transfer, region, result) = (TransferKind::Put, self.next_id(), region.0, Ok(()));
        let completion = Completion { kind, endpoint, flow, transfer, region, offset, length, result };
        self.outgoing.push_back(OutgoingTransfer::new(completion, Source::Lent(data), 0));
        self.settle();
        Ok(TransferId(transfer))
    }

    /// Start to get from a peer's region, from this offset on, into a region of this side.
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
        if self.arriving.len() >= MAX_OWN_TRANSFERS {
            return Err(TransferError::TooMany);
        }
        if into_offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(TransferError::OutOfBounds);
        }
        let (kind, transfer, result) = (TransferKind::Get, self.next_id() | ANSWER, Ok(()));
        let completion =
            Completion { kind, endpoint, flow, transfer, region: into.id().0, offset: into_offset, length, result };
        let (extent, memory) = (Extent::of(length), Some(into.memory.clone()));
        self.arriving.push(Arriving { completion, extent, memory, is_cancelled: false, _open: Weak::new() });
        self.pieces.make_room();
        let (region, into, notice) = (region.0, into.id().0, Notice::of(NoticeKind::Get, transfer));
        self.notices.push(flow, Notice { region, into, offset, into_offset, length, ..notice });
        self.settle();
        Ok(TransferId(transfer))
    }

    /// Cancel a transfer. Returns whether there was anything left to stop.
    pub(crate) fn cancel(&mut self, endpoint: EndpointId, flow: FlowId, TransferId(transfer): TransferId) -> bool {
        let is_it = |completion: &Completion| completion.is(endpoint, flow, transfer);
        let mut puts = self.outgoing.iter_mut().filter(|put| put.completion.kind == TransferKind::Put);
        if let Some(put) = puts.find(|put| is_it(&put.completion)) {
            return put.cancel();
        }
        let mut gets = self.arriving.iter_mut().filter(|arriving| arriving.is_get());
        let Some(get) = gets.find(|get| is_it(&get.completion)) else { return false };
        if !mem::replace(&mut get.is_cancelled, true) {
            self.notices.push(flow, Notice::of(NoticeKind::Cancel, transfer));
            self.settle();
        }
        true
    }

    pub(super) fn next_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1) & Head::MAX_ID;
        self.next_id
    }

    /// Handle at most `most` segments and notices that wait for this endpoint. Returns how many there were. One that lends bytes
    /// counts as several. With `heads_first` it stops at a segment whose message has no head yet.
    pub(crate) fn take_in(
        &mut self,
        core: &mut Core<Frame>,
        transport: &mut dyn Transport,
        endpoint: EndpointId,
        most: usize,
        heads_first: bool,
    ) -> usize {
        let mut count = 0;
        while count < most {
            let is_wanted = |next: &Delivery<Frame>| !heads_first || !self.is_before_head(next);
            let Some(delivery) = core.poll_bulk_if(endpoint, is_wanted) else { break };
            count += 1;
            let (flow, class, waiting) = (delivery.flow, delivery.class, self.notices.len());
            let body = delivery.payload();
            let parsed = match delivery.kind {
                Kind::Put => Segment::parse(body)
                    .map(|(segment, data)| self.on_segment(core, endpoint, flow, &segment, Data::Here(data))),
                _ => Notice::parse(body).filter(is_sound).map(|notice| match (notice.what, core.address(flow)) {
                    (NoticeKind::Lent, Some(of)) => {
                        count += TURNS_SHARE;
                        self.counters.lent += 1;
                        let (segment, data) = Lent::of(transport, of, &notice);
                        self.on_segment(core, endpoint, flow, &segment, data);
                    }
                    // The connection has ended, and so has what was lent on it.
                    (NoticeKind::Lent, None) => {}
                    _ => self.on_notice(core, endpoint, flow, &notice),
                }),
            };
            self.counters.malformed += u64::from(parsed.is_none());
            mem::drop(delivery);
            let has_notice = self.notices.len() > waiting;
            if !(has_notice && self.notices.withholds(flow, class)) {
                core.release(flow, class, 1);
            }
        }
        self.settle();
        count
    }

    fn is_before_head(&self, next: &Delivery<Frame>) -> bool {
        lent::segment_in(next).is_some_and(|segment| self.long.is_before_head(next.flow, &segment))
    }

    fn on_segment(
        &mut self,
        core: &mut Core<Frame>,
        endpoint: EndpointId,
        flow: FlowId,
        segment: &Segment,
        mut data: Data<'_>,
    ) {
        let &Segment { region, transfer, start, at, .. } = segment;
        let is_read = if is_of_message(region, transfer) {
            let mut io = Io { core, notices: &mut self.notices };
            self.long.on_segment(&mut io, endpoint, flow, segment, &mut data)
        } else if transfer & ANSWER != 0 {
            self.on_answer(endpoint, flow, segment, &mut data)
        } else {
            self.on_put(endpoint, flow, segment, &mut data)
        };
        if !is_read {
            let notice = Notice::of(NoticeKind::Unreadable, transfer);
            self.notices.push(flow, Notice { region, into: at as u32, offset: start, ..notice });
        }
    }

    /// Returns `false` if the data is in memory that cannot be read.
    fn on_put(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &mut Data<'_>) -> bool {
        let Segment { region, transfer, start, total, at } = *segment;
        let is_whole = total == data.len() as u64;
        let begun = self.arriving.iter().position(|put| !put.is_get() && put.key() == (flow, transfer));
        let may_begin = || !self.refused.contains(&(flow, transfer)) && self.has_room(flow);
        let memory = if is_whole || begun.is_some() || may_begin() {
            self.regions.find(endpoint, region, |rights: Rights| rights.write, start, total)
        } else {
            Err(TransferError::Busy)
        };
        match memory.and_then(|memory| deposit(&memory, start + at, data)) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(why) => {
                if let Some(at) = begun {
                    self.complete(at, Err(why));
                }
                if matches!(why, TransferError::Busy | TransferError::Borrowed) {
                    self.remember_refused(flow, transfer);
                }
                self.refuse(flow, transfer, region, why);
                return true;
            }
        }
        let (kind, offset, length, result) = (TransferKind::Deposited, start, total, Ok(()));
        let completion = Completion { kind, endpoint, flow, transfer, region, offset, length, result };
        if is_whole {
            self.counters.deposited += 1;
            self.completions.push_back(completion);
            self.notices.push(flow, Notice::of(NoticeKind::Done, transfer));
            return true;
        }
        if begun.is_none() {
            self.pieces.make_room();
            let (extent, _open) = (Extent::of(total), self.regions.handle(region));
            self.arriving.push(Arriving { completion, extent, memory: None, is_cancelled: false, _open });
        }
        self.on_part(begun.unwrap_or(self.arriving.len() - 1), segment, data.len() as u64);
        true
    }

    /// Whether one more put of this flow may begin. Half of the room is for flows with few unfinished puts, so that one flow
    /// cannot block others.
    fn has_room(&self, flow: FlowId) -> bool {
        let puts = || self.arriving.iter().filter(|arriving| !arriving.is_get());
        let begun = || puts().filter(|put| put.completion.flow == flow).count();
        let count = puts().count();
        count < MAX_TRANSFERS / 2 || (count < MAX_TRANSFERS && begun() < MAX_BEGUN_WHEN_CROWDED)
    }

    /// Remember a refused put. Otherwise its later segments, if the region is free when they arrive, would start a put that
    /// never completes.
    #[cold]
    fn remember_refused(&mut self, flow: FlowId, transfer: u32) {
        if self.refused.contains(&(flow, transfer)) {
            return;
        }
        if self.refused.len() == MAX_REFUSED {
            self.refused.pop_front();
        }
        self.refused.push_back((flow, transfer));
    }

    /// Notify the peer why its transfer with this region is refused.
    fn refuse(&mut self, flow: FlowId, transfer: u32, region: u32, why: TransferError) {
        self.counters.refused += 1;
        let (what, region) = match why {
            TransferError::NoRegion => (NoticeKind::NoRegion, 0),
            TransferError::Denied => (NoticeKind::Denied, 0),
            TransferError::Busy => (NoticeKind::Busy, 0),
            // The region's id in the notice means that the region is borrowed. Without it, there are too many transfers.
            TransferError::Borrowed => (NoticeKind::Busy, region),
            _ => (NoticeKind::OutOfBounds, 0),
        };
        self.notices.push(flow, Notice { region, ..Notice::of(what, transfer) });
    }

    /// A segment was deposited. Each one arrives once, so counting bytes is enough to see when all have arrived.
    fn on_part(&mut self, at: usize, segment: &Segment, length: u64) {
        self.counters.deposited += 1;
        let arriving = &mut self.arriving[at];
        self.pieces.note(arriving.key(), &mut arriving.extent, segment.at, length);
        let (flow, Extent { front, .. }) = (arriving.completion.flow, arriving.extent);
        if let Some(what) = arriving.extent.end(segment.total) {
            let notice = Notice::of(what, segment.transfer);
            self.complete(at, TransferError::of(&notice, front));
            self.notices.push(flow, notice);
        }
    }

    /// An arriving transfer has ended.
    pub(super) fn complete(&mut self, at: usize, result: Result<(), TransferError>) {
        let arriving = self.arriving.swap_remove(at);
        self.pieces.keep(|key| key != arriving.key());
        self.completions.push_back(Completion { result, ..arriving.completion });
    }

    /// A segment that answers a get of this node. It is copied only to the place that the get named. Returns `false` if the
    /// data is in memory that cannot be read.
    fn on_answer(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &mut Data<'_>) -> bool {
        let &Segment { region, transfer, start, total, at: offset } = segment;
        let matches = |get: &Completion| {
            get.is(endpoint, flow, transfer) && (get.region, get.offset, get.length) == (region, start, total)
        };
        let found = self.arriving.iter().enumerate().find(|(_, get)| get.is_get() && matches(&get.completion));
        let Some((at, memory)) = found.and_then(|(at, get)| Some((at, get.memory.as_ref()?))) else {
            self.counters.malformed += 1;
            return true;
        };
        match deposit(memory, start + offset, data) {
            Ok(true) => self.on_part(at, segment, data.len() as u64),
            Ok(false) => return false,
            Err(why) => {
                self.complete(at, Err(why));
                self.refuse(flow, transfer, region, why);
            }
        }
        true
    }

    fn on_notice(&mut self, core: &Core<Frame>, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        match notice.what {
            NoticeKind::Get if is_of_message(notice.region, notice.transfer) => {
                return self.on_get_of_message(endpoint, flow, notice);
            }
            NoticeKind::Cancel if is_of_message(notice.region, notice.transfer) => {
                return self.long.on_cancel(core, flow, notice.transfer);
            }
            NoticeKind::Get => return self.on_get(endpoint, flow, notice),
            NoticeKind::Cancel => return self.on_cancel(endpoint, flow, notice.transfer),
            NoticeKind::Waiting => return,
            NoticeKind::Unreadable => return self.on_unreadable(endpoint, flow, notice),
            _ => {}
        }
        let matches = |completion: &Completion| completion.is(endpoint, flow, notice.transfer);
        let is_refused = |get: &Arriving| get.is_get() && matches(&get.completion) && notice.what != NoticeKind::Done;
        let ends = |outgoing: &OutgoingTransfer| {
            matches(&outgoing.completion) && (!outgoing.is_message() || notice.what == NoticeKind::Done)
        };
        if let Some(at) = self.outgoing.iter().position(ends) {
            self.end_outgoing(at, TransferError::of(notice, self.outgoing[at].at));
        } else if let Some(at) = self.arriving.iter().position(is_refused) {
            self.complete(at, TransferError::of(notice, self.arriving[at].extent.front));
        } else {
            self.counters.malformed += 1;
        }
    }

    /// A peer cannot read this process's memory: send the bytes in frames, and those of later transfers on this connection.
    fn on_unreadable(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        let is_it = |outgoing: &&mut OutgoingTransfer| outgoing.completion.is(endpoint, flow, notice.transfer);
        if let Some(outgoing) = self.outgoing.iter_mut().find(is_it) {
            if outgoing.completion.offset == notice.offset {
                outgoing.send_again(notice.into.into());
            }
            self.counters.unreadable += 1;
            self.unreadable.insert(flow);
        }
    }

    /// A peer has memory for a long message of this side.
    fn on_get_of_message(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        let is_it = |outgoing: &&mut OutgoingTransfer| {
            outgoing.is_message() && outgoing.completion.is(endpoint, flow, notice.transfer)
        };
        match self.outgoing.iter_mut().find(is_it) {
            Some(outgoing) => outgoing.ask_for(notice.into, notice.offset, notice.length),
            None => self.counters.malformed += 1,
        }
    }

    /// A peer cancelled its get. The cancellation may arrive before the get.
    fn on_cancel(&mut self, endpoint: EndpointId, flow: FlowId, transfer: u32) {
        let matches = |completion: &Completion| completion.is(endpoint, flow, transfer | ANSWER);
        match self.outgoing.iter_mut().find(|outgoing| matches(&outgoing.completion)) {
            Some(outgoing) => _ = outgoing.cancel(),
            None => self.remember_refused(flow, transfer | ANSWER),
        }
    }

    /// A peer requests a get from a region of this node.
    fn on_get(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        let &Notice { transfer, region, into, offset, into_offset, length, .. } = notice;
        if self.refused.contains(&(flow, transfer | ANSWER)) {
            return self.notices.push(flow, Notice::of(NoticeKind::Cancelled, transfer));
        }
        let memory = if self.outgoing.len() >= MAX_TRANSFERS {
            Err(TransferError::Busy)
        } else if length > MAX_TRANSFER {
            Err(TransferError::OutOfBounds)
        } else {
            self.regions.find(endpoint, region, |rights: Rights| rights.read, offset, length)
        };
        match memory {
            Ok(memory) => {
                let (kind, transfer, result) = (TransferKind::Served, transfer | ANSWER, Ok(()));
                let (region, start) = (into, into_offset);
                let completion = Completion { kind, endpoint, flow, transfer, region, offset: start, length, result };
                self.outgoing.push_back(OutgoingTransfer::new(completion, Source::Region(memory), offset));
            }
            Err(why) => self.refuse(flow, transfer, region, why),
        }
    }
}

/// Whether it lends at least one byte, if it lends any.
fn is_sound(notice: &Notice) -> bool {
    notice.what != NoticeKind::Lent || u64::from(notice.into) < notice.length
}

/// Copy the data into the memory. Fails if it does not fit, or if the memory is borrowed. `false` if the data is in memory that
/// cannot be read.
fn deposit(memory: &Memory, at: u64, data: &mut Data<'_>) -> Result<bool, TransferError> {
    let mut bytes = memory.try_borrow_mut().map_err(|_| TransferError::Borrowed)?;
    let start = usize::try_from(at).ok();
    let place = start.and_then(|start| bytes.get_mut(start..start.checked_add(data.len())?));
    Ok(data.copy_to(place.ok_or(TransferError::OutOfBounds)?))
}
