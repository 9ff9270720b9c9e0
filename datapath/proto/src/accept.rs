//! What a flow does with a message that has arrived.

use am_wire::{Class, Kind, Seq, ShortFrame};

use crate::counters::Counters;
use crate::endpoint::Endpoints;
use crate::flow::{FlowRecord, Phase};
use crate::gaps::Gaps;
use crate::receive_queue::Verdict;

impl FlowRecord {
    /// Whether a short frame has the next message of its class, and there is no gap behind it.
    #[inline(always)]
    pub(crate) fn foresees(&self, class: Class, short: &ShortFrame) -> bool {
        let queue = &self.receive[class];
        self.phase == Phase::Open
            && short.is_next(self.id.nonce, queue.next_expected())
            && queue.is_next(queue.next_expected())
    }

    /// Accept a new message. Returns whether an acknowledgement must leave now: because of a gap, or because many messages
    /// are unacknowledged. Otherwise it waits for a message to piggyback on.
    #[inline(always)]
    pub(crate) fn accept(&mut self, class: Class, seq: Seq, verdict: Verdict, every: u16, gaps: &mut Gaps) -> bool {
        let missing = self.receive[class].accept(seq, gaps);
        if missing > 0 {
            self.on_missing(class, missing, gaps);
        }
        self.ack_forced |= verdict == Verdict::Ahead;
        self.count_unacked(1, every) || self.ack_forced
    }

    /// Count messages that were accepted. Returns whether an acknowledgement must leave because they are many. One that was forced is
    /// queued already.
    #[inline(always)]
    pub(crate) fn count_unacked(&mut self, accepted: u16, every: u16) -> bool {
        self.unacked += accepted;
        self.unacked >= every
    }

    /// Whether a message that is not the next one is accepted: it is behind a gap, and either the reorder buffer has room
    /// for it, or it need not wait there.
    pub(crate) fn accepts_out_of_order<B>(&self, verdict: Verdict, kind: Kind, endpoints: &Endpoints<B>) -> bool {
        verdict == Verdict::Ahead
            && (endpoints.reorder_buffer.len() < endpoints.reorder_capacity || !self.must_wait_for_earlier(kind))
    }

    /// A duplicate, or a message beyond the window. The acknowledgement corrects the sender, and names a duplicate.
    pub(crate) fn on_not_new(
        &mut self,
        verdict: Verdict,
        class: Class,
        seq: Seq,
        gaps: &mut Gaps,
        counters: &mut Counters,
    ) {
        counters.count_not_new(verdict);
        self.ack_forced = true;
        if verdict == Verdict::Duplicate {
            self.reordering(gaps).note_duplicate(class, seq);
        }
    }
}
