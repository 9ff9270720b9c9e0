//! From below: a frame with several messages. Each one is new or a duplicate, finds room or none, as if it had come
//! alone. All share the frame, which goes back to its pool with the last of them. One acknowledgement covers them.

use am_wire::bundle::{Bundle, Item};
use am_wire::frame::Parsed;
use am_wire::{Buffer, Class, Reason, Seq, expand};

use crate::bounce::Bounces;
use crate::counters::Counters;
use crate::endpoint::Endpoints;
use crate::flow::FlowRecord;
use crate::gaps::Gaps;
use crate::node::Core;
use crate::output::Delivery;
use crate::receive_queue::Verdict;

/// What the messages of one coalesced frame need.
struct Arrival<'a, B> {
    endpoints: &'a mut Endpoints<B>,
    gaps: &'a mut Gaps,
    bounces: &'a mut Bounces,
    counters: &'a mut Counters,
    class: Class,
    ack_every: u16,
    frame: &'a B,
    /// Where the messages start in the frame.
    body_at: usize,
    outcome: Outcome,
}

/// What became of the messages.
#[derive(Default)]
struct Outcome {
    accepted: u64,
    /// An acknowledgement must leave now.
    owes_ack: bool,
    /// One message found no room.
    is_full: bool,
    /// One message behind a gap could not be held.
    turned_away: bool,
    /// The first message was rejected, and with it the others.
    returned: bool,
}

impl<B: Buffer> Core<B> {
    /// Accept a coalesced frame. A malformed one is dropped as a whole.
    #[inline(never)]
    pub(crate) fn on_bundle(&mut self, parsed: &Parsed<'_>, class: Class, frame: &B) -> Result<(), Reason> {
        let bundle = Bundle::parse(parsed)?;
        let record = self.flows.by_flow(parsed.header.flow).ok_or(Reason::NoFlow)?;
        record.check(parsed.framing, &parsed.header)?;
        // Any frame of the peer shows that it is alive.
        record.touch(&mut self.deferred.touched);
        let first = expand(parsed.header.seq, parsed.framing.seq_bits(), record.receive[class].near());
        let Core { endpoints, counters, .. } = self;
        let (gaps, bounces) = (&mut self.receiving.gaps, &mut self.sending.bounces);
        let (ack_every, body_at, outcome) = (self.time.waits.ack_every, parsed.framing.body_at(), Outcome::default());
        let mut arrival = Arrival { endpoints, gaps, bounces, counters, class, ack_every, frame, body_at, outcome };
        for (n, item) in bundle.items().enumerate() {
            arrival.take(record, first.plus(n as u32), &item);
            arrival.outcome.returned |= n == 0 && (arrival.outcome.is_full || arrival.outcome.turned_away);
        }
        let Outcome { accepted, owes_ack, is_full, .. } = arrival.outcome;
        if owes_ack {
            record.queue_ack(&mut self.sending.acks_due);
        }
        if (accepted > 0 || is_full)
            && let Some(told) = parsed.piggyback
        {
            record.put_told(told);
        }
        if is_full {
            self.set_full(true);
        }
        self.counters.bundles_received += 1;
        self.counters.received(class, accepted);
        Ok(())
    }
}

impl<B: Buffer> Arrival<'_, B> {
    /// Accept one message as if it had come alone.
    #[inline]
    fn take(&mut self, record: &mut FlowRecord, seq: Seq, item: &Item) {
        let queue = &mut record.receive[self.class];
        let verdict = queue.verdict(seq);
        match verdict {
            Verdict::Duplicate | Verdict::Beyond => {
                self.counters.not_new(verdict);
                record.not_new(verdict, self.class, seq, self.gaps);
                self.outcome.owes_ack = true;
            }
            _ if self.outcome.returned => self.counters.no_room += 1,
            // The reorder buffer is full.
            Verdict::Ahead if !record.takes(verdict, self.class.into(), self.endpoints) => {
                self.bounces.turn_away(record, self.class, seq, self.counters);
                self.outcome.owes_ack |= record.ack_forced;
                self.outcome.turned_away = true;
            }
            _ if !self.endpoints.has_room(self.class) => {
                self.bounces.turn_away(record, self.class, seq, self.counters);
                self.gaps.lost(1);
                self.outcome.owes_ack |= record.ack_forced;
                self.outcome.is_full = true;
            }
            _ => {
                self.outcome.owes_ack |= record.accept(self.class, seq, verdict, self.ack_every, self.gaps);
                self.outcome.accepted += 1;
                let delivery = self.delivery(record, seq, item);
                self.endpoints.arrive(record, verdict, seq, delivery);
            }
        }
    }

    #[inline]
    fn delivery(&self, record: &FlowRecord, seq: Seq, item: &Item) -> Delivery<B> {
        let &Item { handler, words, at, length } = item;
        let body_at = (self.body_at + at) as u16;
        let frame = self.frame.share();
        Delivery {
            flow: record.id,
            class: self.class,
            kind: self.class.into(),
            handler,
            words,
            body_at,
            body: length as u32,
            seq: seq.0 as u16,
            frame,
        }
    }
}
