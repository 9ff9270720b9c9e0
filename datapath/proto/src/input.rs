//! From below: a frame.

use wire::control::Control;
use wire::frame::{self, Parsed};
use wire::{Acks, Address, Buffer, Class, Flow, Framing, Header, Kind, Piggyback, Reason, Seq, WORD, expand};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Delivery, Words};
use crate::receive_queue::Verdict;
use crate::time::Time;
use crate::timers::Wait;

/// Messages from a peer that are acknowledged at once, without waiting for
/// something to ride on: FM 1.0's aggregated acknowledgements (§4.5).
const ACK_EVERY: u16 = 32;

/// What is kept of a message's frame when the frame itself moves on.
struct Message {
    header: Header,
    framing: Framing,
    class: Class,
    words: Words,
    payload: core::ops::Range<usize>,
    piggyback: Option<Piggyback>,
}

impl<B: Buffer> Core<B> {
    /// From below: a frame that was steered to this node. Whatever is wrong
    /// with it is counted.
    #[inline]
    pub fn on_frame(&mut self, now: Time, frame: B) {
        self.now = now;
        let parsed = match frame::parse(frame.bytes(), self.config.ethertype) {
            Ok(parsed) => parsed,
            Err(reason) => return self.counters.drop(reason),
        };
        let outcome = match parsed.header.kind {
            Kind::Request => self.message(now, Message::new(&parsed, Class::Request), frame),
            Kind::Reply => self.message(now, Message::new(&parsed, Class::Reply), frame),
            Kind::Ack => Acks::parse(parsed.payload).and_then(|acks| self.on_ack(now, &parsed, &acks)),
            Kind::Control => Control::parse(parsed.payload).map(|body| self.on_control(now, parsed.source, body)),
        };
        if let Err(reason) = outcome {
            self.counters.drop(reason);
        }
    }

    fn on_control(&mut self, now: Time, source: Address, body: Control) {
        self.counters.control_received += 1;
        match body {
            Control::Beacon(beacon) => self.on_beacon(now, &beacon),
            Control::Connect(question) => self.on_connect(now, source, &question),
            Control::Accept(answer) => self.on_accept(source, &answer),
            Control::Refuse(answer) => self.on_refuse(source, &answer),
            Control::Close(close) => self.on_close(source, &close),
            Control::Probe(probe) => self.on_probe(&probe),
            Control::ProbeSeen(seen) => self.on_probe_seen(now, source, &seen),
        }
    }

    #[inline]
    fn message(&mut self, now: Time, message: Message, frame: B) -> Result<(), Reason> {
        let class = message.class;
        let record = self.flows.by_flow(message.header.flow).ok_or(Reason::NoFlow)?;
        record.check(message.framing, &message.header)?;
        record.heard(now);
        let queue = &mut record.receive[class];
        let seq = expand(message.header.seq, message.framing.seq_bits(), queue.near());
        let verdict = queue.verdict(seq);
        if matches!(verdict, Verdict::Duplicate | Verdict::Beyond) {
            return self.not_new(verdict, message.header.flow);
        }
        if !self.endpoints.has_room() {
            self.counters.no_room += 1;
            return Ok(());
        }
        queue.accept(seq);
        let (id, endpoint) = (record.id, record.endpoint);
        self.owe_ack(now, message.header.flow, verdict);
        if let Some(told) = message.piggyback {
            self.on_piggyback(now, message.header.flow, &told);
        }
        match class {
            Class::Request => self.counters.requests_received += 1,
            Class::Reply => self.counters.replies_received += 1,
        }
        let Message { header, words, payload, .. } = message;
        self.endpoints.push(endpoint, Delivery { flow: id, class, handler: header.handler, words, payload, frame });
        Ok(())
    }

    /// A message that came again, or too early: its sender should hear where
    /// we are.
    #[cold]
    fn not_new(&mut self, verdict: Verdict, flow: Flow) -> Result<(), Reason> {
        match verdict {
            Verdict::Beyond => self.counters.beyond_window += 1,
            _ => self.counters.duplicates += 1,
        }
        if let Some(record) = self.flows.by_flow(flow) {
            record.ack_forced = true;
        }
        self.queue_ack(flow);
        Ok(())
    }

    /// Note that a message was accepted; its acknowledgement waits for
    /// something to ride on, but not long, and not when there are gaps.
    #[inline]
    fn owe_ack(&mut self, now: Time, flow: Flow, verdict: Verdict) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        record.unacked += 1;
        if verdict == Verdict::Ahead {
            record.ack_forced = true;
            return self.queue_ack(flow);
        }
        if record.unacked >= ACK_EVERY {
            return self.queue_ack(flow);
        }
        if record.ack_at == Time::NEVER {
            record.ack_at = now + self.config.ack_delay;
            self.timers.arm(&mut record.ack_armed, Wait::Ack, flow.id(), record.ack_at);
        }
    }

    /// An acknowledgement of this flow goes out with the next outputs.
    pub(crate) fn queue_ack(&mut self, flow: Flow) {
        if let Some(record) = self.flows.by_flow(flow)
            && !record.ack_queued
        {
            record.ack_queued = true;
            self.acks_due.push_back(flow);
        }
    }

    /// An acknowledgement that rode in the padding.
    #[inline]
    fn on_piggyback(&mut self, now: Time, flow: Flow, told: &Piggyback) {
        for class in Class::ALL {
            let Some(record) = self.flows.by_flow(flow) else { return };
            let (near_accepted, near_limit) = record.send[class].near();
            let class_told = told.classes[class.index()];
            let accepted = expand(class_told.accepted as u32, 16, near_accepted);
            let limit = expand(class_told.limit as u32, 16, near_limit);
            self.acknowledged(now, flow, class, accepted, limit);
        }
    }

    /// An acknowledgement in a frame of its own.
    fn on_ack(&mut self, now: Time, parsed: &Parsed<'_>, acks: &Acks) -> Result<(), Reason> {
        let flow = parsed.header.flow;
        let record = self.flows.by_flow(flow).ok_or(Reason::NoFlow)?;
        record.check(parsed.framing, &parsed.header)?;
        record.heard(now);
        self.counters.acks_received += 1;
        for class in Class::ALL {
            let ack = acks.classes[class.index()];
            self.acknowledged(now, flow, class, ack.accepted, ack.limit);
            if ack.sack != 0 {
                self.acknowledged_selected(now, flow, class, ack.accepted, ack.sack);
            }
        }
        Ok(())
    }

    #[inline]
    fn acknowledged(&mut self, now: Time, flow: Flow, class: Class, accepted: Seq, limit: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let queue = &mut record.send[class];
        let progress = queue.acknowledge(&mut self.slots, accepted);
        queue.allow(limit);
        queue.give_out(&mut self.slots, &mut self.ready);
        if progress.acked > 0 {
            record.rtt.backoff = 0;
        }
        if let Some(sent_at) = progress.sample {
            record.rtt.sample(now.since(sent_at));
        }
    }

    #[cold]
    fn acknowledged_selected(&mut self, now: Time, flow: Flow, class: Class, accepted: Seq, sack: u64) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let queue = &mut record.send[class];
        if queue.acknowledge_selected(&mut self.slots, accepted, sack) > 0 {
            record.rtt.backoff = 0;
        }
        let before = Time(now.0.saturating_sub(record.rtt.patience().as_nanos() as u64));
        let resent = queue.resend_lost(&mut self.slots, &mut self.ready, accepted, sack, before);
        self.counters.fast_retransmits += resent as u64;
    }
}

impl Message {
    #[inline]
    fn new(parsed: &Parsed<'_>, class: Class) -> Self {
        let mut words = Words { count: parsed.header.words, ..Words::default() };
        for (word, bytes) in words.words.iter_mut().zip(parsed.words.chunks_exact(WORD)) {
            *word = bytes.try_into().map_or(0, u64::from_be_bytes);
        }
        let start = parsed.framing.body_at() + parsed.words.len();
        Message {
            header: parsed.header,
            framing: parsed.framing,
            class,
            words,
            payload: start..start + parsed.payload.len(),
            piggyback: parsed.piggyback,
        }
    }
}

impl FlowRecord {
    /// Whether a frame is for this use of the flow id, and the flow takes frames.
    #[inline]
    fn check(&self, framing: Framing, header: &Header) -> Result<(), Reason> {
        if self.phase != Phase::Open {
            return Err(Reason::NoFlow);
        }
        if framing != Framing::Bare && header.nonce != self.id.nonce {
            return Err(Reason::Nonce);
        }
        Ok(())
    }
}
