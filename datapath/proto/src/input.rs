//! From below: a frame.

use std::collections::VecDeque;

use wire::control::Control;
use wire::frame::{self, Parsed};
use wire::{Ack, Acks, Buffer, Class, Flow, Framing, Header, Kind, Piggyback, Reason, Seq, expand};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::Delivery;
use crate::receive_queue::Verdict;
use crate::slots::{Link, Slots};
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
    /// Bytes of words and payload.
    body: u32,
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
            Kind::Control => self.on_control(now, &parsed),
        };
        if let Err(reason) = outcome {
            self.counters.drop(reason);
        }
    }

    /// Set-up is rare: it is kept out of the way of messages.
    #[cold]
    fn on_control(&mut self, now: Time, parsed: &Parsed<'_>) -> Result<(), Reason> {
        let (source, body) = (parsed.source, Control::parse(parsed.payload)?);
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
        Ok(())
    }

    #[inline]
    fn message(&mut self, now: Time, message: Message, frame: B) -> Result<(), Reason> {
        let Message { header, class, .. } = message;
        let record = self.flows.by_flow(header.flow).ok_or(Reason::NoFlow)?;
        record.check(message.framing, &header)?;
        record.heard(now);
        let queue = &mut record.receive[class];
        let seq = expand(header.seq, message.framing.seq_bits(), queue.near());
        let verdict = queue.verdict(seq);
        if matches!(verdict, Verdict::Duplicate | Verdict::Beyond) {
            self.not_new(verdict, header.flow);
            return Ok(());
        }
        if !self.endpoints.has_room() {
            self.counters.no_room += 1;
            return Ok(());
        }
        queue.accept(seq);
        if record.owes_ack(verdict) {
            record.queue_ack(&mut self.acks_due);
        } else if record.ack_at == Time::NEVER {
            record.ack_at = now.later(self.waits.ack_delay);
            self.timers.arm(&mut record.ack_armed, Wait::Ack, header.flow.id(), record.ack_at);
        }
        match class {
            Class::Request => self.counters.requests_received += 1,
            Class::Reply => self.counters.replies_received += 1,
        }
        let (flow, endpoint) = (record.id, record.endpoint);
        let Header { handler, words, .. } = header;
        let body_at = message.framing.body_at() as u16;
        let delivery = Delivery { flow, class, handler, words, body_at, body: message.body, frame };
        self.endpoints.push(endpoint, delivery);
        if let Some(told) = message.piggyback {
            self.settle();
            self.told = Some((header.flow, told));
        }
        Ok(())
    }

    /// From below: look at the acknowledgement that came in with the last
    /// message. Call after the doorbell of a turn: what others have done with
    /// our messages can wait until the answers to theirs are on their way.
    #[inline]
    pub fn settle(&mut self) {
        if let Some((flow, told)) = self.told.take()
            && let Some(record) = self.flows.by_flow(flow)
        {
            record.on_piggyback(self.now, &told, &mut self.slots, &mut self.ready);
        }
    }

    /// A message that came again, or too early: its sender should hear where
    /// we are.
    #[cold]
    fn not_new(&mut self, verdict: Verdict, flow: Flow) {
        match verdict {
            Verdict::Beyond => self.counters.beyond_window += 1,
            _ => self.counters.duplicates += 1,
        }
        if let Some(record) = self.flows.by_flow(flow) {
            record.ack_forced = true;
            record.queue_ack(&mut self.acks_due);
        }
    }

    /// An acknowledgement in a frame of its own.
    #[inline(never)]
    fn on_ack(&mut self, now: Time, parsed: &Parsed<'_>, acks: &Acks) -> Result<(), Reason> {
        self.settle();
        let record = self.flows.by_flow(parsed.header.flow).ok_or(Reason::NoFlow)?;
        record.check(parsed.framing, &parsed.header)?;
        record.heard(now);
        self.counters.acks_received += 1;
        for class in Class::ALL {
            let ack = acks.classes[class.index()];
            record.on_told(now, class, ack.accepted, ack.limit, &mut self.slots, &mut self.ready);
            if ack.sack != 0 {
                let resent = record.on_selected(now, class, &ack, &mut self.slots, &mut self.ready);
                self.counters.fast_retransmits += resent as u64;
            }
        }
        Ok(())
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

    /// Note that a message was accepted. Its acknowledgement waits for
    /// something to ride on, but not when there are gaps, nor when much has
    /// gathered: whether it has to go now.
    #[inline]
    fn owes_ack(&mut self, verdict: Verdict) -> bool {
        self.unacked += 1;
        self.ack_forced |= verdict == Verdict::Ahead;
        self.ack_forced || self.unacked >= ACK_EVERY
    }

    /// An acknowledgement of this flow goes out with the next outputs.
    #[inline]
    pub(crate) fn queue_ack(&mut self, acks_due: &mut VecDeque<Flow>) {
        if !self.ack_queued {
            self.ack_queued = true;
            acks_due.push_back(self.id.flow);
        }
    }

    /// An acknowledgement that rode in the padding. Most say something new of
    /// one class only.
    #[inline]
    fn on_piggyback<B: Buffer>(
        &mut self,
        now: Time,
        told: &Piggyback,
        slots: &mut Slots<B>,
        ready: &mut VecDeque<Link>,
    ) {
        for class in Class::ALL {
            let (near_accepted, near_limit) = self.send[class].near();
            let told = told.classes[class.index()];
            if (told.accepted, told.limit) != (near_accepted.0 as u16, near_limit.0 as u16) {
                let accepted = expand(told.accepted as u32, 16, near_accepted);
                let limit = expand(told.limit as u32, 16, near_limit);
                self.on_told(now, class, accepted, limit, slots, ready);
            }
        }
    }

    /// The receiver has everything before `accepted` and allows everything
    /// before `limit`.
    fn on_told<B: Buffer>(
        &mut self,
        now: Time,
        class: Class,
        accepted: Seq,
        limit: Seq,
        slots: &mut Slots<B>,
        ready: &mut VecDeque<Link>,
    ) {
        let queue = &mut self.send[class];
        let progress = queue.acknowledge(slots, accepted);
        queue.allow(limit);
        queue.give_out(slots, ready);
        if progress.acked > 0 {
            self.rtt.backoff = 0;
        }
        if let Some(sent_at) = progress.sample {
            self.rtt.sample(now.since(sent_at));
        }
    }

    /// Messages beyond a gap have arrived. Returns how many before them are
    /// sent again.
    #[cold]
    fn on_selected<B: Buffer>(
        &mut self,
        now: Time,
        class: Class,
        ack: &Ack,
        slots: &mut Slots<B>,
        ready: &mut VecDeque<Link>,
    ) -> u32 {
        let queue = &mut self.send[class];
        if queue.acknowledge_selected(slots, ack.accepted, ack.sack) > 0 {
            self.rtt.backoff = 0;
        }
        queue.resend_lost(slots, ready, ack.accepted, ack.sack, now.earlier(self.rtt.patience()))
    }
}

impl Message {
    #[inline]
    fn new(parsed: &Parsed<'_>, class: Class) -> Self {
        let body = (parsed.words.len() + parsed.payload.len()) as u32;
        Message { header: parsed.header, framing: parsed.framing, class, body, piggyback: parsed.piggyback }
    }
}
