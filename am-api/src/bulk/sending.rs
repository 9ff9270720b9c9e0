//! What is under way from here: segments and notices, a few with each turn.

use std::mem;

use proto::{Delivery, EndpointId, FlowState, ReturnReason};
use ring::Frame;
use wire::bulk::{Notice, Segment};
use wire::{Class, Kind};

use super::regions::Memory;
use super::{Bulk, Over, TransferError};
use crate::shared::Shared;

/// Where the bytes are.
pub(super) enum Source {
    /// Lent by who put them.
    Lent(Box<dyn AsRef<[u8]>>),
    /// A region that is read for a peer.
    Region(Memory),
}

/// A transfer from here.
pub(super) struct Sending {
    pub(super) over: Over,
    source: Source,
    /// Where in the source it starts.
    from: u64,
    /// Bytes that are in segments.
    at: u64,
    /// All of it is; a transfer of no bytes is one segment, too.
    is_sent: bool,
    /// The first byte of those that came back.
    lost: u64,
    /// The most credit that the conversation has had.
    most_credit: usize,
}

/// The most segments that leave with one turn.
const SEGMENTS: usize = 32;

/// So much of credit and frames is left to other messages: one in so many.
const LEFT: usize = 8;

impl Sending {
    pub(super) fn new(over: Over, source: Source, from: u64) -> Self {
        Sending { over, source, from, at: 0, is_sent: false, lost: u64::MAX, most_credit: 1 }
    }

    /// The bytes of the next segment into their place; less than that where
    /// who lent them has changed their length.
    fn copy(&self, place: &mut [u8]) {
        let at = (self.from + self.at) as usize;
        let take = |all: &[u8], place: &mut [u8]| match all.get(at..at + place.len()) {
            Some(bytes) => place.copy_from_slice(bytes),
            None => place.fill(0),
        };
        match &self.source {
            Source::Lent(data) => take((**data).as_ref(), place),
            Source::Region(memory) => match memory.try_borrow() {
                Ok(bytes) => take(&bytes, place),
                Err(_) => place.fill(0),
            },
        }
    }

    fn is_readable(&self) -> bool {
        match &self.source {
            Source::Lent(_) => true,
            Source::Region(memory) => memory.try_borrow().is_ok(),
        }
    }
}

impl Shared {
    /// Part of each turn's second half.
    #[inline]
    pub(crate) fn pump(&mut self) {
        if !self.bulk.is_idle() {
            self.pump_bulk();
        }
    }

    #[cold]
    fn pump_bulk(&mut self) {
        // Its parts are needed one by one beside the core.
        let mut bulk = mem::take(&mut self.bulk);
        self.end_dead(&mut bulk);
        for _ in 0..bulk.notices.len() {
            let Some((flow, notice)) = bulk.notices.pop_front() else { break };
            if !self.send_notice(flow, &notice) {
                bulk.notices.push_back((flow, notice));
            }
        }
        let mut idle = 0;
        for _ in 0..SEGMENTS {
            // Each transfer in turn, until none of them can go on.
            let sent = loop {
                let Some(mut sending) = bulk.sending.pop_front() else { break false };
                let sent = self.send_segment(&mut sending);
                bulk.sending.push_back(sending);
                idle = if sent { 0 } else { idle + 1 };
                if sent || idle >= bulk.sending.len() {
                    break sent;
                }
            };
            if !sent {
                break;
            }
            bulk.counters.sent += 1;
        }
        self.bulk = bulk;
    }

    /// Whether it need not be tried again.
    fn send_notice(&mut self, flow: proto::FlowId, notice: &Notice) -> bool {
        if !matches!(self.core().state(flow), FlowState::Open { .. }) {
            return true;
        }
        let Some(frame) = self.engine.pool().take() else { return false };
        let write = |place: &mut [u8]| place.copy_from_slice(&notice.to_bytes());
        self.core().send_bulk(flow, Kind::Get, frame, Notice::BYTES, write).is_ok()
    }

    fn send_segment(&mut self, sending: &mut Sending) -> bool {
        let flow = sending.over.flow;
        if sending.is_sent || !sending.is_readable() {
            return false;
        }
        let FlowState::Open { max_body, .. } = self.core().state(flow) else { return false };
        let credit = self.core().credit(flow, Class::Request);
        sending.most_credit = sending.most_credit.max(credit);
        let core = self.engine.core();
        if credit <= sending.most_credit / LEFT || core.room() <= self.prepared + core.config().send_frames / LEFT {
            return false;
        }
        let total = sending.over.length;
        let length = (total - sending.at).min(max_body.saturating_sub(Segment::BYTES) as u64) as usize;
        let Some(frame) = self.engine.pool().take() else { return false };
        let Over { region, transfer, offset: start, .. } = sending.over;
        let fixed = Segment { region, transfer, start, total, at: sending.at }.to_bytes();
        let write = |place: &mut [u8]| {
            let (for_fixed, for_data) = place.split_at_mut(Segment::BYTES);
            for_fixed.copy_from_slice(&fixed);
            sending.copy(for_data);
        };
        if self.core().send_bulk(flow, Kind::Put, frame, Segment::BYTES + length, write).is_err() {
            return false;
        }
        self.engine.pass(&mut *self.transport);
        sending.at += length as u64;
        sending.is_sent = sending.at == total;
        true
    }

    /// Transfers whose conversation is over are over as well.
    fn end_dead(&mut self, bulk: &mut Bulk) {
        for at in (0..bulk.sending.len()).rev() {
            let Sending { over, at: sent, lost, .. } = &bulk.sending[at];
            if let Some(reason) = self.is_over(over) {
                let result = Err(TransferError::Lost { reason, from: (*lost).min(*sent) });
                bulk.over.push_back(Over { result, ..*over });
                bulk.sending.remove(at);
            }
        }
        for at in (0..bulk.asked.len()).rev() {
            let over = bulk.asked[at].over;
            if let Some(reason) = self.is_over(&over) {
                let result = Err(TransferError::Lost { reason, from: 0 });
                bulk.over.push_back(Over { result, ..over });
                bulk.asked.swap_remove(at);
            }
        }
        bulk.look_at_one(|flow| self.ended(flow).is_some());
    }

    /// Why, once everything that comes back is back.
    fn is_over(&mut self, over: &Over) -> Option<ReturnReason> {
        let reason = self.ended(over.flow)?;
        (!self.core().has_returned_to(over.endpoint)).then_some(reason)
    }

    fn ended(&mut self, flow: proto::FlowId) -> Option<ReturnReason> {
        match self.core().state(flow) {
            FlowState::Open { .. } | FlowState::Connecting => None,
            FlowState::Dead(reason) => Some(reason),
            FlowState::Refused(_) | FlowState::Unknown => Some(ReturnReason::Closed),
        }
    }
}

impl Bulk {
    /// A segment could not be delivered.
    pub(crate) fn on_returned(&mut self, endpoint: EndpointId, message: &Delivery<Frame>) {
        let Some((segment, _)) = Segment::parse(message.payload()).filter(|_| message.kind == Kind::Put) else {
            return;
        };
        let is_it =
            |over: &Over| over.endpoint == endpoint && over.flow == message.flow && over.transfer == segment.transfer;
        if let Some(sending) = self.sending.iter_mut().find(|sending| is_it(&sending.over)) {
            sending.lost = sending.lost.min(segment.at);
        }
    }
}
