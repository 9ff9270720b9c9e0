//! Incoming segments and notices. Each segment is copied into the region that it names, if that is allowed. A peer
//! can send anything, so each segment is checked by itself.

use std::mem;
use std::rc::Weak;

use am_proto::{Core, Delivery, EndpointId, FlowId};
use am_ring::Frame;
use am_wire::Kind;
use am_wire::bulk::{Notice, NoticeKind, Segment};

use super::Rights;
use super::extent::{Extent, Key};
use super::outgoing::{OutgoingTransfer, Source};
use super::regions::Memory;
use super::{ANSWER, Bulk, Completion, MAX_REFUSED, MAX_TRANSFER, MAX_TRANSFERS, TransferError, TransferKind};

/// A get of this node whose bytes have not all arrived.
pub(super) struct PendingGet {
    pub(super) completion: Completion,
    pub(super) memory: Memory,
    pub(super) extent: Extent,
    pub(super) is_cancelled: bool,
}

impl PendingGet {
    pub(super) fn key(&self) -> Key {
        (self.completion.flow, self.completion.transfer)
    }
}

/// The most unfinished puts of one flow while half of [`MAX_TRANSFERS`] are in use.
const MAX_BEGUN_WHEN_CROWDED: usize = 32;

/// A put of a peer that has begun and is not complete.
pub(super) struct IncomingPut {
    pub(super) endpoint: EndpointId,
    pub(super) flow: FlowId,
    transfer: u32,
    region: u32,
    start: u64,
    total: u64,
    pub(super) extent: Extent,
    /// Keeps the region in use while this put is unfinished: the region counts these handles.
    _open: Weak<()>,
}

impl IncomingPut {
    fn new(endpoint: EndpointId, flow: FlowId, segment: &Segment, open: Weak<()>) -> Self {
        let &Segment { region, transfer, start, total, .. } = segment;
        IncomingPut { endpoint, flow, transfer, region, start, total, extent: Extent::of(total), _open: open }
    }

    pub(super) fn key(&self) -> Key {
        (self.flow, self.transfer)
    }

    fn completion(&self, result: Result<(), TransferError>) -> Completion {
        let &IncomingPut { endpoint, flow, transfer, region, start: offset, total: length, .. } = self;
        Completion { kind: TransferKind::Deposited, endpoint, flow, transfer, region, offset, length, result }
    }
}

impl Bulk {
    /// Handle the segments and notices that wait for this endpoint, at most `most`. Returns how many there were.
    pub(crate) fn take_in(&mut self, core: &mut Core<Frame>, endpoint: EndpointId, most: usize) -> usize {
        for count in 0..most {
            let Some(delivery) = core.poll_bulk(endpoint) else { return count };
            let waiting = self.notices.len();
            self.on_delivery(endpoint, &delivery);
            let (flow, class) = (delivery.flow, delivery.class);
            mem::drop(delivery);
            let has_notice = self.notices.len() > waiting;
            if !(has_notice && self.notices.holds(flow)) {
                core.release(flow, class);
            }
        }
        most
    }

    /// Handle one segment or notice for this endpoint.
    fn on_delivery(&mut self, endpoint: EndpointId, delivery: &Delivery<Frame>) {
        let (flow, body) = (delivery.flow, delivery.payload());
        let parsed = match delivery.kind {
            Kind::Put => Segment::parse(body).map(|(segment, data)| self.on_put(endpoint, flow, &segment, data)),
            _ => Notice::parse(body).map(|notice| self.on_notice(endpoint, flow, &notice)),
        };
        if parsed.is_none() {
            self.counters.senseless += 1;
        }
    }

    fn on_put(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &[u8]) {
        if segment.transfer & ANSWER != 0 {
            return self.on_answer(endpoint, flow, segment, data);
        }
        let Segment { region, transfer, start, total, at } = *segment;
        let may_begin = || !self.refused.contains(&(flow, transfer)) && self.has_room(flow);
        let room = total == data.len() as u64 || self.incoming(flow, transfer).is_some() || may_begin();
        let memory = if room {
            self.regions.find(endpoint, region, |rights: Rights| rights.write, start, total)
        } else {
            Err(NoticeKind::Busy)
        };
        if let Err(why) = memory.and_then(|memory| deposit(&memory, start + at, data)) {
            self.counters.refused += 1;
            if let Some(at) = self.incoming(flow, transfer) {
                self.end_incoming(at, why);
            }
            if why == NoticeKind::Busy {
                self.remember_refused(flow, transfer);
            }
            return self.notices.push(flow, Notice::of(why, transfer));
        }
        self.counters.deposited += 1;
        if total == data.len() as u64 {
            self.completions.push_back(IncomingPut::new(endpoint, flow, segment, Weak::new()).completion(Ok(())));
            return self.notices.push(flow, Notice::of(NoticeKind::Done, transfer));
        }
        self.on_part(endpoint, flow, segment, data.len() as u64);
    }

    /// Whether one more put of this flow may begin. Half of the room is for flows with few unfinished puts, so that
    /// one flow cannot block the others.
    fn has_room(&self, flow: FlowId) -> bool {
        let begun = || self.incoming.iter().filter(|incoming| incoming.flow == flow).count();
        self.incoming.len() < MAX_TRANSFERS / 2
            || (self.incoming.len() < MAX_TRANSFERS && begun() < MAX_BEGUN_WHEN_CROWDED)
    }

    /// Remember a refused put. Its later segments still arrive. If the region is free by then, they would start a
    /// put that never completes.
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

    fn incoming(&self, flow: FlowId, transfer: u32) -> Option<usize> {
        self.incoming.iter().position(|incoming| incoming.flow == flow && incoming.transfer == transfer)
    }

    /// Add a segment to its put. Each segment arrives once, so counting bytes is enough.
    fn on_part(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, length: u64) {
        let at = self.incoming(flow, segment.transfer).unwrap_or(self.incoming.len());
        if at == self.incoming.len() {
            self.pieces.make_room();
            let open = self.regions.handle(segment.region);
            self.incoming.push(IncomingPut::new(endpoint, flow, segment, open));
        }
        let incoming = &mut self.incoming[at];
        self.pieces.note(incoming.key(), &mut incoming.extent, segment.at, length);
        if let Some(what) = incoming.extent.end(segment.total) {
            self.end_incoming(at, what);
            self.notices.push(flow, Notice::of(what, segment.transfer));
        }
    }

    fn end_incoming(&mut self, at: usize, what: NoticeKind) {
        let result = TransferError::of(what, self.incoming[at].extent.front);
        self.complete_put(at, result);
    }

    /// Complete a put of a peer.
    pub(super) fn complete_put(&mut self, at: usize, result: Result<(), TransferError>) {
        let incoming = self.incoming.swap_remove(at);
        self.pieces.keep(|key| key != incoming.key());
        self.completions.push_back(incoming.completion(result));
    }

    fn end_pending(&mut self, at: usize, what: NoticeKind) {
        let result = TransferError::of(what, self.pending[at].extent.front);
        self.complete_get(at, result);
    }

    /// Complete a get of this node.
    pub(super) fn complete_get(&mut self, at: usize, result: Result<(), TransferError>) {
        let pending = self.pending.swap_remove(at);
        self.pieces.keep(|key| key != pending.key());
        self.completions.push_back(Completion { result, ..pending.completion });
    }

    /// A segment that answers a get of this node. It is copied only to where the get asked for it.
    fn on_answer(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &[u8]) {
        let matches = |completion: &Completion| {
            completion.is(endpoint, flow, segment.transfer)
                && (completion.region, completion.offset, completion.length)
                    == (segment.region, segment.start, segment.total)
        };
        let Some(at) = self.pending.iter().position(|pending| matches(&pending.completion)) else {
            self.counters.senseless += 1;
            return;
        };
        let pending = &mut self.pending[at];
        if let Err(why) = deposit(&pending.memory, segment.start + segment.at, data) {
            self.counters.refused += 1;
            self.end_pending(at, why);
            return self.notices.push(flow, Notice::of(why, segment.transfer));
        }
        self.counters.deposited += 1;
        self.pieces.note(pending.key(), &mut pending.extent, segment.at, data.len() as u64);
        if let Some(what) = pending.extent.end(segment.total) {
            self.end_pending(at, what);
            self.notices.push(flow, Notice::of(what, segment.transfer));
        }
    }

    fn on_notice(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        match notice.what {
            NoticeKind::Get => return self.on_get(endpoint, flow, notice),
            NoticeKind::Cancel => return self.on_cancel(endpoint, flow, notice.transfer),
            NoticeKind::Waiting => return,
            _ => {}
        }
        let matches = |completion: &Completion| completion.is(endpoint, flow, notice.transfer);
        if let Some(at) = self.outgoing.iter().position(|outgoing| matches(&outgoing.completion)) {
            let result = TransferError::of(notice.what, self.outgoing[at].sent());
            self.end_outgoing(at, result);
        } else if let Some(at) =
            self.pending.iter().position(|pending| matches(&pending.completion) && notice.what != NoticeKind::Done)
        {
            self.end_pending(at, notice.what);
        } else {
            self.counters.senseless += 1;
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
        let memory = if self.outgoing.len() < MAX_TRANSFERS && length <= MAX_TRANSFER {
            self.regions.find(endpoint, region, |rights: Rights| rights.read, offset, length)
        } else {
            Err(NoticeKind::Busy)
        };
        match memory {
            Ok(memory) => {
                let (kind, transfer) = (TransferKind::Served, transfer | ANSWER);
                let (region, remote_offset) = (into, into_offset);
                let completion = Completion {
                    kind,
                    endpoint,
                    flow,
                    transfer,
                    region,
                    offset: remote_offset,
                    length,
                    result: Ok(()),
                };
                self.outgoing.push_back(OutgoingTransfer::new(completion, Source::Region(memory), offset));
            }
            Err(why) => {
                self.counters.refused += 1;
                self.notices.push(flow, Notice::of(why, transfer));
            }
        }
    }
}

/// Copies the data into the memory, if all of it fits and the memory is not borrowed.
fn deposit(memory: &Memory, at: u64, data: &[u8]) -> Result<(), NoticeKind> {
    let mut bytes = memory.try_borrow_mut().map_err(|_| NoticeKind::Busy)?;
    let at = usize::try_from(at).map_err(|_| NoticeKind::OutOfBounds)?;
    let end = at.checked_add(data.len()).ok_or(NoticeKind::OutOfBounds)?;
    bytes.get_mut(at..end).ok_or(NoticeKind::OutOfBounds)?.copy_from_slice(data);
    Ok(())
}
