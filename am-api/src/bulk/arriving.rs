//! What comes in: each segment is deposited where its transfer says, if that
//! is allowed. A peer can say anything: each segment is judged by itself.

use std::mem;
use std::rc::Weak;

use am_proto::{Core, Delivery, EndpointId, FlowId};
use am_ring::Frame;
use am_wire::Kind;
use am_wire::bulk::{Notice, Segment, What};

use super::Rights;
use super::extent::{Extent, Key};
use super::regions::Memory;
use super::sending::{Sending, Source};
use super::{ANSWER, Bulk, MAX_REFUSED, MAX_TRANSFER, MAX_TRANSFERS, Over, TransferError, TransferKind};

/// A get that is not here yet.
pub(super) struct Asked {
    pub(super) over: Over,
    pub(super) memory: Memory,
    pub(super) extent: Extent,
    pub(super) is_cancelled: bool,
}

impl Asked {
    pub(super) fn key(&self) -> Key {
        (self.over.flow, self.over.transfer)
    }
}

/// So many puts at once a peer may have begun when others have begun many.
const FEW: usize = 32;

/// A put of a peer, of which more is to come.
pub(super) struct Arriving {
    pub(super) endpoint: EndpointId,
    pub(super) flow: FlowId,
    transfer: u32,
    region: u32,
    start: u64,
    total: u64,
    pub(super) extent: Extent,
    /// The region is in use.
    _open: Weak<()>,
}

impl Arriving {
    fn new(endpoint: EndpointId, flow: FlowId, segment: &Segment, open: Weak<()>) -> Self {
        let &Segment { region, transfer, start, total, .. } = segment;
        Arriving { endpoint, flow, transfer, region, start, total, extent: Extent::of(total), _open: open }
    }

    pub(super) fn key(&self) -> Key {
        (self.flow, self.transfer)
    }

    fn over(&self, result: Result<(), TransferError>) -> Over {
        let &Arriving { endpoint, flow, transfer, region, start: offset, total: length, .. } = self;
        Over { kind: TransferKind::Deposited, endpoint, flow, transfer, region, offset, length, result }
    }
}

impl Bulk {
    /// Deposit what waits for this endpoint, at most so many segments; how many there were.
    pub(crate) fn take_in(&mut self, core: &mut Core<Frame>, endpoint: EndpointId, most: usize) -> usize {
        for count in 0..most {
            let Some(delivery) = core.poll_bulk(endpoint) else { return count };
            let waiting = self.notices.len();
            self.on_delivery(endpoint, &delivery);
            let (flow, class) = (delivery.flow, delivery.class);
            mem::drop(delivery);
            let told = self.notices.len() > waiting;
            if !(told && self.notices.holds(flow)) {
                core.release(flow, class);
            }
        }
        most
    }

    /// A part of a transfer, for this endpoint.
    fn on_delivery(&mut self, endpoint: EndpointId, delivery: &Delivery<Frame>) {
        let (flow, body) = (delivery.flow, delivery.payload());
        let understood = match delivery.kind {
            Kind::Put => Segment::parse(body).map(|(segment, data)| self.on_put(endpoint, flow, &segment, data)),
            _ => Notice::parse(body).map(|notice| self.on_notice(endpoint, flow, &notice)),
        };
        if understood.is_none() {
            self.counters.senseless += 1;
        }
    }

    fn on_put(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &[u8]) {
        if segment.transfer & ANSWER != 0 {
            return self.on_answer(endpoint, flow, segment, data);
        }
        let Segment { region, transfer, start, total, at } = *segment;
        let may_begin = || !self.refused.contains(&(flow, transfer)) && self.has_room(flow);
        let room = total == data.len() as u64 || self.arriving(flow, transfer).is_some() || may_begin();
        let memory = if room {
            self.regions.find(endpoint, region, |rights: Rights| rights.write, start, total)
        } else {
            Err(What::Busy)
        };
        if let Err(why) = memory.and_then(|memory| deposit(&memory, start + at, data)) {
            self.counters.refused += 1;
            if let Some(at) = self.arriving(flow, transfer) {
                self.end_arriving(at, why);
            }
            if why == What::Busy {
                self.remember_refused(flow, transfer);
            }
            return self.notices.push(flow, Notice::of(why, transfer));
        }
        self.counters.deposited += 1;
        if total == data.len() as u64 {
            self.over.push_back(Arriving::new(endpoint, flow, segment, Weak::new()).over(Ok(())));
            return self.notices.push(flow, Notice::of(What::Done, transfer));
        }
        self.on_part(endpoint, flow, segment, data.len() as u64);
    }

    /// Whether one more put of this peer may begin. Half of the room is for
    /// those that have begun few: nobody's unfinished puts keep others' out.
    fn has_room(&self, flow: FlowId) -> bool {
        let begun = || self.arriving.iter().filter(|arriving| arriving.flow == flow).count();
        self.arriving.len() < MAX_TRANSFERS / 2 || (self.arriving.len() < MAX_TRANSFERS && begun() < FEW)
    }

    /// The rest of it is on its way, may find the region free, and would be waited for in vain as a transfer of its own.
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

    fn arriving(&self, flow: FlowId, transfer: u32) -> Option<usize> {
        self.arriving.iter().position(|arriving| arriving.flow == flow && arriving.transfer == transfer)
    }

    /// Each segment comes once, so that counting their bytes is enough.
    fn on_part(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, length: u64) {
        let at = self.arriving(flow, segment.transfer).unwrap_or(self.arriving.len());
        if at == self.arriving.len() {
            self.pieces.make_room();
            let open = self.regions.handle(segment.region);
            self.arriving.push(Arriving::new(endpoint, flow, segment, open));
        }
        let arriving = &mut self.arriving[at];
        self.pieces.note(arriving.key(), &mut arriving.extent, segment.at, length);
        if let Some(what) = arriving.extent.end(segment.total) {
            self.end_arriving(at, what);
            self.notices.push(flow, Notice::of(what, segment.transfer));
        }
    }

    fn end_arriving(&mut self, at: usize, what: What) {
        let result = TransferError::of(what, self.arriving[at].extent.front);
        self.put_is_over(at, result);
    }

    /// A put of a peer.
    pub(super) fn put_is_over(&mut self, at: usize, result: Result<(), TransferError>) {
        let arriving = self.arriving.swap_remove(at);
        self.pieces.keep(|key| key != arriving.key());
        self.over.push_back(arriving.over(result));
    }

    fn end_asked(&mut self, at: usize, what: What) {
        let result = TransferError::of(what, self.asked[at].extent.front);
        self.get_is_over(at, result);
    }

    /// A get of ours.
    pub(super) fn get_is_over(&mut self, at: usize, result: Result<(), TransferError>) {
        let asked = self.asked.swap_remove(at);
        self.pieces.keep(|key| key != asked.key());
        self.over.push_back(Over { result, ..asked.over });
    }

    /// Part of what this side asked for: it goes only where it was asked to.
    fn on_answer(&mut self, endpoint: EndpointId, flow: FlowId, segment: &Segment, data: &[u8]) {
        let is_it = |over: &Over| {
            over.is(endpoint, flow, segment.transfer)
                && (over.region, over.offset, over.length) == (segment.region, segment.start, segment.total)
        };
        let Some(at) = self.asked.iter().position(|asked| is_it(&asked.over)) else {
            self.counters.senseless += 1;
            return;
        };
        let asked = &mut self.asked[at];
        if let Err(why) = deposit(&asked.memory, segment.start + segment.at, data) {
            self.counters.refused += 1;
            self.end_asked(at, why);
            return self.notices.push(flow, Notice::of(why, segment.transfer));
        }
        self.counters.deposited += 1;
        self.pieces.note(asked.key(), &mut asked.extent, segment.at, data.len() as u64);
        if let Some(what) = asked.extent.end(segment.total) {
            self.end_asked(at, what);
            self.notices.push(flow, Notice::of(what, segment.transfer));
        }
    }

    fn on_notice(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        match notice.what {
            What::Get => return self.on_get(endpoint, flow, notice),
            What::Cancel => return self.on_cancel(endpoint, flow, notice.transfer),
            What::Waiting => return,
            _ => {}
        }
        let is_it = |over: &Over| over.is(endpoint, flow, notice.transfer);
        if let Some(at) = self.sending.iter().position(|sending| is_it(&sending.over)) {
            let result = TransferError::of(notice.what, self.sending[at].sent());
            self.end_sending(at, result);
        } else if let Some(at) = self.asked.iter().position(|asked| is_it(&asked.over) && notice.what != What::Done) {
            self.end_asked(at, notice.what);
        } else {
            self.counters.senseless += 1;
        }
    }

    /// A peer does not want it any more. It may say so before its wish has come.
    fn on_cancel(&mut self, endpoint: EndpointId, flow: FlowId, transfer: u32) {
        let is_it = |over: &Over| over.is(endpoint, flow, transfer | ANSWER);
        match self.sending.iter_mut().find(|sending| is_it(&sending.over)) {
            Some(sending) => _ = sending.cancel(),
            None => self.remember_refused(flow, transfer | ANSWER),
        }
    }

    /// A peer wants something of ours.
    fn on_get(&mut self, endpoint: EndpointId, flow: FlowId, notice: &Notice) {
        let &Notice { transfer, region, into, offset, into_offset, length, .. } = notice;
        if self.refused.contains(&(flow, transfer | ANSWER)) {
            return self.notices.push(flow, Notice::of(What::Cancelled, transfer));
        }
        let memory = if self.sending.len() < MAX_TRANSFERS && length <= MAX_TRANSFER {
            self.regions.find(endpoint, region, |rights: Rights| rights.read, offset, length)
        } else {
            Err(What::Busy)
        };
        match memory {
            Ok(memory) => {
                let (kind, transfer) = (TransferKind::Served, transfer | ANSWER);
                let (region, offset_there) = (into, into_offset);
                let over =
                    Over { kind, endpoint, flow, transfer, region, offset: offset_there, length, result: Ok(()) };
                self.sending.push_back(Sending::new(over, Source::Region(memory), offset));
            }
            Err(why) => {
                self.counters.refused += 1;
                self.notices.push(flow, Notice::of(why, transfer));
            }
        }
    }
}

/// Into the memory, if all of it fits and nobody has it borrowed.
fn deposit(memory: &Memory, at: u64, data: &[u8]) -> Result<(), What> {
    let mut bytes = memory.try_borrow_mut().map_err(|_| What::Busy)?;
    let at = usize::try_from(at).map_err(|_| What::OutOfBounds)?;
    let end = at.checked_add(data.len()).ok_or(What::OutOfBounds)?;
    bytes.get_mut(at..end).ok_or(What::OutOfBounds)?.copy_from_slice(data);
    Ok(())
}
