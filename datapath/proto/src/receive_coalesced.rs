//! From below: a frame with several messages. Each one is new or a duplicate, finds room or none, as if it had come
//! alone. All share the frame, which goes back to its pool with the last of them. One acknowledgement covers them.

use am_wire::coalesced::{Body, CoalescedMessage};
use am_wire::frame::ParsedFrame;
use am_wire::{Buffer, Class, Reason, Seq, expand};

use crate::counters::Counters;
use crate::endpoint::Endpoints;
use crate::flow::FlowRecord;
use crate::gaps::Gaps;
use crate::node::Core;
use crate::output::Delivery;
use crate::pending_rejects::PendingRejects;
use crate::receive_queue::Verdict;

/// What the messages of one coalesced frame need.
struct FrameContext<'a, B> {
    endpoints: &'a mut Endpoints<B>,
    gaps: &'a mut Gaps,
    bounces: &'a mut PendingRejects,
    counters: &'a mut Counters,
    class: Class,
    ack_every: u16,
    frame: &'a B,
    /// Where the messages start in the frame.
    body_at: usize,
    outcome: MessagesOutcome,
}

/// What became of the messages.
#[derive(Default)]
struct MessagesOutcome {
    accepted: u64,
    /// An acknowledgement must leave now.
    is_ack_due: bool,
    /// One message found no room.
    is_full: bool,
    /// One message behind a gap could not be held.
    has_unheld: bool,
    /// The first message was rejected, and with it the others.
    is_first_rejected: bool,
}

impl<B: Buffer> Core<B> {
    /// Accept a coalesced frame. A malformed one is dropped as a whole.
    #[inline(never)]
    pub(crate) fn on_coalesced(&mut self, parsed: &ParsedFrame<'_>, class: Class, frame: &B) -> Result<(), Reason> {
        let bundle = Body::parse(parsed)?;
        let record = self.flows.by_flow(parsed.header.flow).ok_or(Reason::NoFlow)?;
        record.check(parsed.framing, &parsed.header)?;
        // Any frame of the peer shows that it is alive.
        record.mark_dirty(&mut self.deferred.dirty);
        let first = expand(parsed.header.seq, parsed.framing.seq_bits(), record.receive[class].next_expected());
        let Core { endpoints, counters, .. } = self;
        let (gaps, bounces) = (&mut self.receiving.gaps, &mut self.sending.pending_rejects);
        let (ack_every, body_at, outcome) =
            (self.time.timing.ack_every, parsed.framing.body_at(), MessagesOutcome::default());
        let mut arrival =
            FrameContext { endpoints, gaps, bounces, counters, class, ack_every, frame, body_at, outcome };
        for (n, item) in bundle.items().enumerate() {
            arrival.accept_message(record, first.plus(n as u32), &item);
            arrival.outcome.is_first_rejected |= n == 0 && (arrival.outcome.is_full || arrival.outcome.has_unheld);
        }
        let MessagesOutcome { accepted, is_ack_due: owes_ack, is_full, .. } = arrival.outcome;
        if owes_ack {
            record.queue_ack(&mut self.sending.acks_due);
        }
        if (accepted > 0 || is_full)
            && let Some(piggyback) = parsed.piggyback
        {
            record.keep_piggyback(piggyback);
        }
        if is_full {
            self.set_full(true);
        }
        self.counters.bundles_received += 1;
        self.counters.count_received(class, accepted);
        Ok(())
    }
}

impl<B: Buffer> FrameContext<'_, B> {
    /// Accept one message as if it had come alone.
    #[inline]
    fn accept_message(&mut self, record: &mut FlowRecord, seq: Seq, item: &CoalescedMessage) {
        let queue = &mut record.receive[self.class];
        let verdict = queue.verdict(seq);
        match verdict {
            Verdict::Duplicate | Verdict::Beyond => {
                self.counters.count_not_new(verdict);
                record.on_not_new(verdict, self.class, seq, self.gaps);
                self.outcome.is_ack_due = true;
            }
            _ if self.outcome.is_first_rejected => self.counters.no_room += 1,
            // The reorder buffer is full.
            Verdict::Ahead if !record.accepts_out_of_order(verdict, self.class.into(), self.endpoints) => {
                self.bounces.reject(record, self.class, seq, self.counters);
                self.outcome.is_ack_due |= record.ack_forced;
                self.outcome.has_unheld = true;
            }
            _ if !self.endpoints.has_room(self.class) => {
                self.bounces.reject(record, self.class, seq, self.counters);
                self.gaps.count_lost(1);
                self.outcome.is_ack_due |= record.ack_forced;
                self.outcome.is_full = true;
            }
            _ => {
                self.outcome.is_ack_due |= record.accept(self.class, seq, verdict, self.ack_every, self.gaps);
                self.outcome.accepted += 1;
                let delivery = self.delivery(record, seq, item);
                self.endpoints.accept(record, verdict, seq, delivery);
            }
        }
    }

    #[inline]
    fn delivery(&self, record: &FlowRecord, seq: Seq, item: &CoalescedMessage) -> Delivery<B> {
        let &CoalescedMessage { handler, words, at, length } = item;
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
