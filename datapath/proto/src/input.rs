//! From below: a frame arrived.

use std::time::Duration;

use am_wire::coalesced::Body;
use am_wire::control::Control;
use am_wire::frame::{self, ParsedFrame};
use am_wire::{
    AckHint, Acks, Address, Buffer, Class, Flow, Framing, Header, Kind, Piggyback, Reason, Seq, ShortFrame, expand,
};

use crate::flow::{FlowRecord, Phase};
use crate::mutants::{self, Mutant};
use crate::node::Core;
use crate::output::Delivery;
use crate::rate_limit::UNKNOWN_FLOWS;
use crate::receive_queue::Verdict;
use crate::segment_key::is_auth_code;

/// The shortest time between two answers to unknown flows, whoever sent the frames.
const UNKNOWN_FLOW_PAUSE: Duration = Duration::from_millis(5);

/// What is needed of a message's header after its frame has moved on.
struct MessageHead {
    header: Header,
    framing: Framing,
    class: Class,
    /// Bytes of words and payload.
    body: usize,
    piggyback: Option<Piggyback>,
}

impl MessageHead {
    #[inline]
    fn new(parsed: &ParsedFrame<'_>, class: Class) -> Self {
        MessageHead {
            header: parsed.header,
            framing: parsed.framing,
            class,
            body: parsed.body_len(),
            piggyback: parsed.piggyback,
        }
    }
}

impl<B: Buffer> Core<B> {
    /// From below: a frame that was steered to this node. A malformed frame is counted by reason and dropped. The frame
    /// counts as received at the core's last known time ([`Core::run_deferred`]), because reading the clock would delay
    /// the message.
    #[inline]
    pub fn on_frame(&mut self, frame: B) {
        // The compiler makes a copy for each framing and class, which is shorter than one for all.
        let find = |framing| ShortFrame::find(framing, frame.bytes(), self.config.ethertype);
        if let Some(short) = find(Framing::Split) {
            self.on_short_frame(&short, frame);
        } else if let Some(short) = find(Framing::Bare) {
            self.on_short_frame(&short, frame);
        } else {
            self.on_frame_in_full(frame);
        }
    }

    #[inline(always)]
    fn on_short_frame(&mut self, short: &ShortFrame, frame: B) {
        match short.class {
            Class::Request => self.on_short_message(Class::Request, short, frame),
            Class::Reply => self.on_short_message(Class::Reply, short, frame),
        }
    }

    /// A short frame, as nearly all are. If it has not the next message of its flow, or anything keeps that from its endpoint's queue, it
    /// is left to the general code.
    #[inline(always)]
    fn on_short_message(&mut self, class: Class, short: &ShortFrame, frame: B) {
        let &ShortFrame { flow, handler, words, body, framing, acks, .. } = short;
        let Some(record) = self.flows.active(flow).filter(|record| record.foresees(class, short)) else {
            return self.on_frame_in_full(frame);
        };
        let Some(endpoint) = self.endpoints.reserve(record.endpoint, class, Some(handler), 1) else {
            return self.on_frame_in_full(frame);
        };
        let (body_at, body) = (framing.body_at() as u16, body.into());
        let seq = record.receive[class].next_expected().0 as u16;
        endpoint.push_next(Delivery {
            flow: record.id,
            class,
            kind: class.into(),
            handler,
            words,
            body_at,
            body,
            seq,
            behind: 0,
            frame,
        });
        self.endpoints.waiting_count += 1;
        record.receive[class].accept_next(1);
        // Any frame of the peer shows that it is alive.
        record.mark_dirty(&mut self.deferred.dirty);
        if record.count_unacked(1, self.time.timing.ack_every) {
            record.queue_ack(&mut self.sending.acks_due);
        }
        record.keep_piggyback(acks);
        self.counters.count_received(class, 1);
    }

    /// As [`on_frame`](Self::on_frame), for any frame.
    #[inline(never)]
    fn on_frame_in_full(&mut self, frame: B) {
        // The fast path. It keeps the parsed header in registers.
        if let Some(parsed) = frame::parse_usual(frame.bytes(), self.config.ethertype) {
            let (header, framing) = (parsed.header, parsed.framing);
            // The compiler makes a copy for each class, which is shorter than one for both.
            let outcome = match header.kind.into() {
                Class::Request => self.on_message(MessageHead::new(&parsed, Class::Request), frame),
                Class::Reply => self.on_message(MessageHead::new(&parsed, Class::Reply), frame),
            };
            if let Err(reason) = outcome {
                self.drop_frame(reason, header.flow, (framing != Framing::Bare).then_some(header.nonce));
            }
        } else {
            self.on_any_frame(frame);
        }
    }

    #[inline(never)]
    fn on_any_frame(&mut self, frame: B) {
        let parsed = match frame::parse(frame.bytes(), self.config.ethertype) {
            Ok(parsed) => parsed,
            Err(reason) => {
                self.counters.dropped[reason as usize] += 1;
                return;
            }
        };
        let (header, framing) = (parsed.header, parsed.framing);
        let outcome = match header.kind {
            Kind::Request | Kind::Reply | Kind::Put | Kind::Get => {
                self.on_message(MessageHead::new(&parsed, header.kind.into()), frame)
            }
            Kind::Ack => self.on_ack(&parsed),
            Kind::Control => self.on_control(&parsed, destination(frame.bytes())),
            Kind::Reject => self.on_any_reject(&parsed),
            Kind::Coalesced(class) => self.on_coalesced(&parsed, class, &frame),
            Kind::Group => self.on_group_frame(frame),
        };
        if let Err(reason) = outcome {
            self.drop_frame(reason, header.flow, (framing != Framing::Bare).then_some(header.nonce));
        }
    }

    /// From below: a frame arrived on a flow that is not open here, and steering kept it. One call may stand for
    /// several frames. [`Flow::NODE`] means that the frame was for an earlier run of this node.
    #[cold]
    pub fn on_unknown_flow(&mut self, flow: Flow) {
        self.answer_unknown_flow(flow, None);
    }

    /// Count a dropped frame. If its flow is unknown, its sender is notified.
    #[cold]
    pub(crate) fn drop_frame(&mut self, reason: Reason, flow: Flow, nonce: Option<u16>) {
        self.counters.dropped[reason as usize] += 1;
        if matches!(reason, Reason::NoFlow | Reason::Nonce) {
            self.answer_unknown_flow(flow, nonce);
        }
    }

    fn answer_unknown_flow(&mut self, flow: Flow, nonce: Option<u16>) {
        let is_known = |record: &&mut FlowRecord| match record.phase {
            Phase::Connecting(_) | Phase::Open => true,
            // The first Close is still queued behind earlier messages. An answer would overtake those.
            Phase::Closing => record.setup.total_tries == 0,
            _ => false,
        };
        let record = self.flows.by_flow(flow).filter(is_known);
        let is_none = record.is_none_or(|record| nonce.is_some_and(|nonce| nonce != record.id.nonce));
        if !is_none || self.now < self.discovery.unknown_flows.next_answer_at {
            return;
        }
        match self.discovery.unknown_flows.closed_flow(flow, nonce) {
            Some(closed_flow) => self.sending.control.push(closed_flow.to, Control::Closed(closed_flow.closed)),
            None if self.discovery.unknown_flows.broadcasts.try_take(
                self.now,
                self.discovery.peers.count(),
                &UNKNOWN_FLOWS,
            ) =>
            {
                self.broadcast_beacon(false)
            }
            None => return,
        }
        self.discovery.unknown_flows.next_answer_at = self.now + UNKNOWN_FLOW_PAUSE;
        self.counters.unknown_flows_answered += 1;
    }

    #[cold]
    fn on_control(&mut self, parsed: &ParsedFrame<'_>, to: Address) -> Result<(), Reason> {
        let now = self.now;
        let source = parsed.source;
        let (body, content, rest) = Control::parse_with_auth_code(parsed.payload)?;
        let is_authentic = match &self.config.key {
            Some(key) => is_auth_code(&key.control_code(parsed.framing, to, source, content), rest),
            None => rest.is_empty() || body.is_padded(),
        };
        if !is_authentic {
            self.note_unauthenticated();
            return Ok(());
        }
        self.counters.control_received += 1;
        match body {
            Control::Beacon(beacon) => self.on_beacon(now, &beacon),
            Control::Connect(question) => self.on_connect(now, source, &question),
            Control::Accept(answer) => self.on_accept(source, &answer),
            Control::Refuse(answer) => self.on_refuse(source, &answer),
            Control::Close(close) => self.on_close(source, &close),
            Control::Closed(closed) => self.on_closed(source, &closed),
            Control::Probe(probe) => self.on_probe(source, &probe),
            Control::ProbeSeen(seen) => self.on_probe_seen(now, source, &seen),
            Control::Keepalive(question) => self.on_keepalive(source, &question),
            Control::Leave(leave) => self.on_leave(source, &leave),
        }
        Ok(())
    }

    /// A message in a frame of its own, with `body` bytes of words and payload.
    #[inline(always)]
    fn on_message(&mut self, message: MessageHead, frame: B) -> Result<(), Reason> {
        let MessageHead { header, framing, class, body, piggyback } = message;
        let record = self.flows.by_flow(header.flow).ok_or(Reason::NoFlow)?;
        record.check(framing, &header)?;
        // Any frame of the peer shows that it is alive.
        record.mark_dirty(&mut self.deferred.dirty);
        let seq = expand(header.seq, framing.seq_bits(), record.receive[class].next_expected());
        let verdict = record.receive[class].verdict(seq);
        if verdict != Verdict::Next && !record.accepts_out_of_order(verdict, header.kind, &self.endpoints) {
            self.on_not_accepted(verdict, header.flow, class, seq);
            return Ok(());
        }
        if !self.endpoints.has_room(class, record.endpoint) && !self.endpoints.has_room_for_bulk(header.kind, record) {
            self.on_no_room(header.flow, class, seq);
            return Ok(());
        }
        let Header { kind, handler, words, .. } = header;
        let (body_at, body, seq16) = (framing.body_at() as u16, body as u32, seq.0 as u16);
        let delivery =
            Delivery { flow: record.id, class, kind, handler, words, body_at, body, seq: seq16, behind: 0, frame };
        if !self.endpoints.accept(record, verdict, seq, delivery) {
            self.refuse(header.flow, class, seq);
            return Ok(());
        }
        if record.accept(class, seq, verdict, self.time.timing.ack_every, &mut self.receiving.gaps) {
            record.queue_ack(&mut self.sending.acks_due);
        }
        if let Some(piggyback) = piggyback {
            record.keep_piggyback(piggyback);
        }
        self.counters.count_received(class, 1);
        self.endpoints.deliver_behind(record, class, seq.plus(1));
        Ok(())
    }

    #[cold]
    fn on_not_accepted(&mut self, verdict: Verdict, flow: Flow, class: Class, seq: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        if verdict == Verdict::Ahead {
            // The reorder buffer is full. Because of the reject, the sender need not wait for its RTO.
            record.reject(class, seq, false, &mut self.sending.pending_rejects, &mut self.counters);
        } else {
            record.on_not_new(verdict, class, seq, &mut self.receiving.gaps, &mut self.counters);
        }
        record.queue_ack(&mut self.sending.acks_due);
    }

    /// There is no room for a message in a frame of its own.
    #[cold]
    fn on_no_room(&mut self, flow: Flow, class: Class, seq: Seq) {
        let is_all_full = self.endpoints.is_full(class);
        if is_all_full {
            self.receiving.gaps.count_lost(1);
            self.set_full(true);
        }
        let Some(record) = self.flows.by_flow(flow) else { return };
        record.reject(class, seq, !is_all_full, &mut self.sending.pending_rejects, &mut self.counters);
        if record.ack_forced {
            record.queue_ack(&mut self.sending.acks_due);
        }
    }

    /// A coalesced frame. Its messages are accepted together if nothing is special about any of them, as nearly always.
    /// Otherwise each is accepted, rejected or a duplicate, as if it had a frame of its own, and the last one releases the
    /// frame to its pool. One acknowledgement covers them. A malformed frame is dropped as a whole.
    #[inline(never)]
    fn on_coalesced(&mut self, parsed: &ParsedFrame<'_>, class: Class, frame: &B) -> Result<(), Reason> {
        let body = Body::parse(parsed)?;
        let record = self.flows.open_flow_of(parsed, &mut self.deferred.dirty)?;
        let first = expand(parsed.header.seq, parsed.framing.seq_bits(), record.receive[class].next_expected());
        let (gaps, ack_every, at) = (&mut self.receiving.gaps, self.time.timing.ack_every, parsed.framing.body_at());
        if record.receive[class].is_next(first)
            && let Some(first) = body.items().next()
            && let Some(endpoint) = self.endpoints.reserve(record.endpoint, class, body.handler(), body.count())
        {
            let seq = record.receive[class].accept_next(body.count());
            let behind = body.count() as u16 - 1;
            endpoint.push_next(Delivery {
                behind,
                ..Delivery::coalesced(record.id, class, &first, at, seq, frame.share())
            });
            self.endpoints.waiting_count += body.count();
            if record.count_unacked(body.count() as u16, ack_every) {
                record.queue_ack(&mut self.sending.acks_due);
            }
            parsed.piggyback.into_iter().for_each(|piggyback| record.keep_piggyback(piggyback));
            self.counters.count_coalesced(class, body.count() as u64);
            return Ok(());
        }
        let pending = &mut self.sending.pending_rejects;
        let (mut accepted, mut is_ack_due, mut is_full, mut is_first_rejected) = (0, false, false, false);
        let seqs = (0..).map(|n| first.plus(n));
        for (seq, item) in seqs.zip(body.items()) {
            let verdict = record.receive[class].verdict(seq);
            let fits = verdict == Verdict::Next || record.accepts_out_of_order(verdict, class.into(), &self.endpoints);
            if matches!(verdict, Verdict::Duplicate | Verdict::Beyond) {
                record.on_not_new(verdict, class, seq, gaps, &mut self.counters);
                is_ack_due = true;
            } else if is_first_rejected {
                self.counters.no_room += 1;
            } else if !fits || !self.endpoints.has_room(class, record.endpoint) {
                // If not all is full, either the reorder buffer is, or the endpoint has used its part of the room.
                let is_all_full = self.endpoints.is_full(class);
                record.reject(class, seq, fits && !is_all_full, pending, &mut self.counters);
                gaps.count_lost(is_all_full as u32);
                (is_full, is_first_rejected) = (is_full | is_all_full, seq == first);
            } else {
                let delivery = Delivery::coalesced(record.id, class, &item, at, seq, frame.share());
                if !self.endpoints.accept(record, verdict, seq, delivery) {
                    record.refuse(class, seq, &mut self.endpoints.refused, pending, &mut self.counters);
                    continue;
                }
                is_ack_due |= record.accept(class, seq, verdict, ack_every, gaps);
                accepted += 1;
                self.endpoints.deliver_behind(record, class, seq.plus(1));
            }
        }
        if is_ack_due || record.ack_forced {
            record.queue_ack(&mut self.sending.acks_due);
        }
        if let Some(piggyback) = parsed.piggyback.filter(|_| accepted > 0 || is_full) {
            record.keep_piggyback(piggyback);
        }
        self.set_full(is_full || self.receiving.is_full);
        self.counters.count_coalesced(class, accepted);
        Ok(())
    }

    /// An acknowledgement in a frame of its own.
    fn on_ack(&mut self, parsed: &ParsedFrame<'_>) -> Result<(), Reason> {
        let flow = parsed.header.flow;
        let acks = Acks::parse(parsed.payload)?;
        let Some(record) = self.flows.active(flow) else { return self.on_idle_ack(parsed, &acks) };
        if !mutants::is_active(Mutant::OtherIncarnation) {
            record.check(parsed.framing, &parsed.header)?;
        }
        self.deferred.received_acks.push_back((flow, acks));
        self.counters.acks_received += 1;
        if parsed.header.seq != 0 {
            self.on_ack_hint(flow, AckHint::from_bits(parsed.header.seq));
        }
        Ok(())
    }
}

impl<B: Buffer> Core<B> {
    /// An acknowledgement on a flow that is not active. If it brings news, the flow becomes active.
    #[cold]
    fn on_idle_ack(&mut self, parsed: &ParsedFrame<'_>, acks: &Acks) -> Result<(), Reason> {
        let flow = parsed.header.flow;
        let record = self.flows.look(flow).ok_or(Reason::NoFlow)?;
        record.check(parsed.framing, &parsed.header)?;
        if parsed.header.seq != 0 || !self.flows.idle.is_known(flow, acks) {
            self.flows.by_flow(flow);
            return self.on_ack(parsed);
        }
        self.deferred.dirty.push(flow);
        self.counters.acks_received += 1;
        Ok(())
    }
}

fn destination(frame: &[u8]) -> Address {
    Address(frame.first_chunk().copied().unwrap_or_default())
}

impl FlowRecord {
    /// Whether the flow is open, and the frame is for this use of the flow id.
    #[inline]
    pub(crate) fn check(&self, framing: Framing, header: &Header) -> Result<(), Reason> {
        if self.phase != Phase::Open {
            return Err(Reason::NoFlow);
        }
        if framing != Framing::Bare && header.nonce != self.id.nonce {
            return Err(Reason::Nonce);
        }
        Ok(())
    }
}
