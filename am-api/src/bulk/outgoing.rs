//! Sends segments and notices, a few in each turn.

use am_engine::Engine;
use am_proto::{Core, EndpointId, Fate, FlowId, FlowState, Returned};
use am_ring::Frame;
use am_transport::Transport;
use am_wire::bulk::{LENT_BYTES, Notice, NoticeKind, Segment};
use am_wire::{Class, Kind};

use super::lent;
use super::messages::Io;
use super::notices::{MAX_TRIES, Notices};
use super::under_way::OutgoingTransfer;
use super::{Bulk, Completion};

/// The most segments that leave with one turn.
const MAX_SEGMENTS: usize = 32;

/// About the most bytes that leave in one turn. This keeps the number of long frames in use small: they are acknowledged
/// between turns, and written again while they are still in the cache.
const MAX_BYTES: usize = 256 << 10;

/// The most segments that one transfer sends before the next transfer may send.
const MAX_IN_A_ROW: usize = 4;

/// Transfers leave one of this many credits and frames to other messages.
const LEFT_TO_OTHERS: usize = 8;

/// The parts of a node that sending transfers needs.
struct TransferIo<'a> {
    engine: &'a mut Engine,
    transport: &'a mut dyn Transport,
    /// Prepared requests that are not committed.
    prepared: usize,
}

impl TransferIo<'_> {
    #[inline]
    fn core(&mut self) -> &mut Core<Frame> {
        self.engine.core_mut()
    }

    /// Send segments of each transfer in turn, until the turn's limit is reached or no transfer can send.
    fn send_segments(&mut self, bulk: &mut Bulk) {
        let (mut left, mut idle) = (MAX_SEGMENTS, 0);
        while left > 0 && idle < bulk.outgoing.len() {
            bulk.next = if bulk.next < bulk.outgoing.len() { bulk.next } else { 0 };
            let outgoing = &mut bulk.outgoing[bulk.next];
            let before = outgoing.at;
            let may_lend = !bulk.unreadable.contains(&outgoing.completion.flow);
            let sent = self.send_some(outgoing, left.min(MAX_IN_A_ROW), may_lend);
            let bytes = (outgoing.at - before) as usize;
            bulk.next += 1;
            bulk.counters.sent += sent as u64;
            left = left.saturating_sub(sent.max(bytes * MAX_SEGMENTS / MAX_BYTES));
            idle = if sent > 0 { 0 } else { idle + 1 };
        }
    }

    fn send_notices(&mut self, notices: &mut Notices) {
        for _ in 0..notices.len().min(MAX_TRIES) {
            let Some((flow, notice)) = notices.pop() else { break };
            if !self.send_notice(flow, &notice) {
                notices.requeue(flow, notice);
                continue;
            }
            let withheld = Class::ALL.into_iter().zip(notices.sent(flow)).filter(|(_, credits)| *credits > 0);
            withheld.for_each(|(class, credits)| self.core().release(flow, class, credits));
        }
    }

    /// Send a notice. Returns whether it was sent, or need not be sent because the connection is closed.
    fn send_notice(&mut self, flow: FlowId, notice: &Notice) -> bool {
        if !matches!(self.core().state(flow), FlowState::Open { .. }) {
            return true;
        }
        let Some(frame) = self.engine.pool().take() else { return false };
        let write = |place: &mut [u8]| place.copy_from_slice(&notice.to_bytes());
        self.core().send(flow, Kind::Get, 0, 0, frame, Notice::BYTES, write).is_ok()
    }

    /// Send at most `most` segments, as credit and room allow. Returns how many were sent.
    fn send_some(&mut self, outgoing: &mut OutgoingTransfer, most: usize, may_lend: bool) -> usize {
        let flow = outgoing.completion.flow;
        if outgoing.awaits_peer() || !outgoing.is_readable() {
            return 0;
        }
        let core = self.engine.core();
        let FlowState::Open { max_body, .. } = core.state(flow) else { return 0 };
        let credit = core.credit(flow, Class::Request);
        outgoing.most_credit = outgoing.most_credit.max(credit);
        let room = core.free_slots().saturating_sub(self.prepared);
        // What others hold may wait for this very transfer. So it takes the last credit if none is on its way back, and the place
        // that the core has for one segment.
        let is_last = core.outstanding(flow, Class::Request) == 0;
        let credit = credit.saturating_sub(outgoing.most_credit / LEFT_TO_OTHERS).max(is_last.into());
        let room = room.saturating_sub(core.config().send_frames / LEFT_TO_OTHERS).max(1);
        let most = most.min(credit).min(room);
        let full = max_body.saturating_sub(Segment::BYTES);
        let may_lend = may_lend && self.can_lend(outgoing, flow);
        if may_lend && outgoing.until < outgoing.completion.length {
            // The receiver of a message has to know where its bytes go, and then asks for them.
            outgoing.until = outgoing.at;
            return 0;
        }
        let mut send = |outgoing: &mut OutgoingTransfer| {
            (may_lend && outgoing.has_to_lend() && self.lend(outgoing)) || self.send_segment(outgoing, full)
        };
        (0..most).take_while(|_| !outgoing.awaits_peer() && send(outgoing)).count()
    }

    /// Whether the transfer's bytes are lent. If this side can read the peer's memory, the peer can probably read that of this side.
    fn can_lend(&mut self, outgoing: &OutgoingTransfer, flow: FlowId) -> bool {
        let left = outgoing.completion.length - outgoing.at;
        outgoing.lease.is_some() || self.core().address(flow).is_some_and(|to| self.transport.prefers_reading(to, left))
    }

    /// Let the peer copy the next bytes from this process's memory.
    fn lend(&mut self, outgoing: &mut OutgoingTransfer) -> bool {
        let Completion { flow, region, transfer, offset: start, length: total, .. } = outgoing.completion;
        let at = outgoing.at;
        let Some(lease) = outgoing.lease() else { return false };
        let notice = lease.lend(&Segment { region, transfer, start, total, at });
        if !self.send_notice(flow, &notice) {
            return false;
        }
        self.engine.send_early(self.transport);
        outgoing.at = (at + LENT_BYTES).min(total);
        outgoing.is_sent = outgoing.at == total;
        true
    }

    /// Send one segment of at most `full` bytes of data.
    #[inline]
    fn send_segment(&mut self, outgoing: &mut OutgoingTransfer, full: usize) -> bool {
        let (flow, total) = (outgoing.completion.flow, outgoing.completion.length);
        let (at, until) = match outgoing.again.front() {
            Some(&piece) => piece,
            None if outgoing.is_cancelled => (outgoing.at, outgoing.at),
            None => (outgoing.at, outgoing.until),
        };
        let length = (until - at).min(full as u64) as usize;
        let Some(frame) = self.engine.pool().take() else { return false };
        self.engine.pool().prefetch_next(Segment::BYTES + length);
        let Completion { region, transfer, offset: start, .. } = outgoing.completion;
        let fixed = Segment { region, transfer, start, total, at }.to_bytes();
        let write = |place: &mut [u8]| {
            let (for_fixed, for_data) = place.split_at_mut(Segment::BYTES);
            for_fixed.copy_from_slice(&fixed);
            outgoing.copy_to(at, for_data);
        };
        if self.core().send(flow, Kind::Put, 0, 0, frame, Segment::BYTES + length, write).is_err() {
            return false;
        }
        self.engine.send_early(self.transport);
        let next = at + length as u64;
        match outgoing.again.front_mut() {
            Some(piece) if next < piece.1 => piece.0 = next,
            Some(_) => _ = outgoing.again.pop_front(),
            None => {
                outgoing.at = next;
                outgoing.is_sent = outgoing.is_cancelled;
            }
        }
        // Prefetch the bytes of the next segment while the NIC sends this one, because they are read for the first time.
        outgoing.with_rest(next, |rest| am_ring::prefetch(&rest[..length.min(rest.len())]));
        outgoing.is_sent |= outgoing.at == total && outgoing.again.is_empty();
        true
    }

    /// A peer may have died after it acknowledged all segments, and before it reported the end of the transfer. So send each
    /// such peer a notice now and then that it has to acknowledge.
    fn probe_silent_peers(&mut self, bulk: &mut Bulk) {
        let (now, patience) = (self.core().now(), self.core().config().patience);
        if now < *bulk.probe_at.get_or_insert(now + patience) {
            return;
        }
        bulk.probe_at = Some(now + patience);
        let sent = bulk.outgoing.iter().filter(|outgoing| outgoing.awaits_peer()).map(|outgoing| outgoing.completion);
        let gets = bulk.arriving.iter().filter(|arriving| arriving.is_get()).map(|get| get.completion);
        let transfers = gets.chain(sent).map(|Completion { flow, transfer, .. }| (flow, transfer));
        for (flow, transfer) in transfers.chain(bulk.long.flows()) {
            if !bulk.notices.has(flow, NoticeKind::Waiting) {
                bulk.notices.push(flow, Notice::of(NoticeKind::Waiting, transfer));
            }
        }
    }
}

impl Bulk {
    /// The part of [`exhale`](am_engine::Engine::exhale) for transfers: send notices and segments.
    #[inline(never)]
    pub(crate) fn pump(&mut self, engine: &mut Engine, transport: &mut dyn Transport, prepared: usize) {
        if self.long.wants_memory() {
            let core = engine.core_mut();
            self.long.share_memory(&mut Io { core, notices: &mut self.notices });
        }
        self.long.give_credit(engine.core_mut());
        let mut io = TransferIo { engine, transport, prepared };
        io.probe_silent_peers(self);
        io.send_notices(&mut self.notices);
        io.send_segments(self);
        self.settle();
    }

    /// A segment or notice could not be delivered. Note from which byte on parts of the transfer may be missing.
    pub(super) fn on_returned(&mut self, endpoint: EndpointId, returned: &Returned<Frame>) {
        let message = &returned.message;
        let Some(segment) = lent::segment_in(message) else { return };
        let is_it = |completion: &Completion| completion.is(endpoint, message.flow, segment.transfer);
        if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| is_it(&outgoing.completion)) {
            // A transfer's segment that may have arrived counts as lost. A message was not handled if one certainly did not arrive.
            let is_present = segment.start == outgoing.completion.offset && returned.fate == Fate::NotDelivered;
            if !outgoing.is_message() || is_present {
                outgoing.lost = outgoing.lost.min(segment.at);
            }
        }
    }
}
