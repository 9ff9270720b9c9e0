//! Loss detection: what acknowledgements of gaps mean for messages that later ones have overtaken. See
//! [`crate::reordering`].

use std::collections::VecDeque;
use std::mem;

use am_wire::{AckHint, Acks, Buffer, Class, Flow, Seq};

use crate::flow::FlowRecord;
use crate::gaps::Gaps;
use crate::node::Core;
use crate::reordering::{LossRule, Reordering};
use crate::rtt::Timing;
use crate::slots::Slots;
use crate::time::{Time, TimerKind};

impl<B: Buffer> Core<B> {
    #[cold]
    pub(crate) fn on_ack_hint(&mut self, flow: Flow, hint: AckHint) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        match hint {
            AckHint::None => {}
            AckHint::Repeated(class, number) => {
                let Some(order) = &mut record.reordering else { return };
                let in_vain = order.on_duplicate_report(self.now, class, number, &mut record.rtt, &self.time.timing);
                self.counters.spurious_retransmits += in_vain as u64;
                if in_vain {
                    record.report_lost(class, 0, &mut self.sending.acks_due);
                }
            }
            AckHint::Lost(class, count) | AckHint::Late(class, count) => {
                let lost = record.reordering(&mut self.receiving.gaps).peer_losses[class.index()].on_loss_report(count);
                self.receiving.gaps.count_lost(lost);
                if matches!(hint, AckHint::Late(..)) {
                    self.receiving.fair_shares[class].forget_losses();
                }
            }
        }
    }

    /// Messages beyond gaps were acknowledged.
    #[cold]
    pub(crate) fn process_selective_acks(&mut self, now: Time, flow: Flow, acks: &Acks) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        for class in Class::ALL {
            let ack = &acks.classes[class.index()];
            if ack.sack == 0 {
                continue;
            }
            let (acked, late) = record.send[class].acknowledge_selected(&mut self.slots, ack.accepted, ack.sack);
            if acked > 0 {
                record.rtt.backoff = 0;
                record.rejects.on_accepted();
            }
            _ = record.reordering(&mut self.receiving.gaps);
            if let Some(order) = &mut record.reordering {
                order.note_late(late.map_or(0, |sent_at| now.since(sent_at)));
                order.shrink(now, &record.rtt, &self.time.timing);
            }
            let last = ack.accepted.plus(u64::BITS - ack.sack.leading_zeros());
            let (lost, next) = record.resend_lost(now, class, last, &mut self.slots, &self.time.timing);
            self.counters.fast_retransmits += lost as u64;
            if record.tolerance() > 0 {
                self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, flow.id(), next);
                record.report_lost(class, lost, &mut self.sending.acks_due);
            }
        }
        record.shorten_pause(now, &mut self.time.timers, &self.time.timing);
    }

    /// Send overtaken messages again that are older than the tolerance now. Returns when the next one will be.
    #[cold]
    pub(crate) fn resend_overdue(&mut self, now: Time, flow: Flow) -> Time {
        let mut next = Time::NEVER;
        let Some(record) = self.flows.by_flow(flow) else { return next };
        for class in Class::ALL {
            let Some(last) = record.send[class].last_selected(&self.slots) else { continue };
            let (lost, due) = record.resend_lost(now, class, last, &mut self.slots, &self.time.timing);
            self.counters.fast_retransmits += lost as u64;
            record.report_lost(class, lost, &mut self.sending.acks_due);
            next = next.min(due);
        }
        next
    }
}

impl FlowRecord {
    /// The age from which on an overtaken message counts as lost; 0 if no message came late.
    #[inline]
    pub(crate) fn tolerance(&self) -> u64 {
        self.reordering.as_ref().map_or(0, |order| order.tolerance)
    }

    pub(crate) fn seq_in_doubt(&self, class: Class) -> Option<Seq> {
        let doubt = self.reordering.as_ref()?.doubt?;
        (doubt.class == class).then_some(doubt.seq)
    }

    /// The loss-detection state, which is created when it is first needed.
    #[cold]
    pub(crate) fn reordering(&mut self, gaps: &mut Gaps) -> &mut Reordering {
        self.reordering.get_or_insert_with(|| gaps.take_reordering())
    }

    #[inline]
    pub(crate) fn take_ack_hint(&mut self) -> AckHint {
        self.reordering.as_mut().map_or(AckHint::None, |order| mem::take(&mut order.ack_hint))
    }

    /// Later messages have overtaken `missing` ones. They count as lost, unless the sender reports its losses itself.
    #[cold]
    pub(crate) fn on_missing(&mut self, class: Class, missing: u32, gaps: &mut Gaps) {
        if self.reordering.as_mut().is_none_or(|order| order.peer_losses[class.index()].counts_gap_as_loss()) {
            gaps.count_lost(missing);
        }
    }

    /// Count `lost` messages, and report them to the peer when a report is due.
    fn report_lost(&mut self, class: Class, lost: u32, acks_due: &mut VecDeque<Flow>) {
        if self.reordering.as_mut().is_some_and(|order| order.count_lost(class, lost)) {
            self.ack_forced = true;
            self.queue_ack(acks_due);
        }
    }

    /// Send lost messages before `last`, which arrived, again. Returns how many, and when the next one counts as lost.
    fn resend_lost<B>(
        &mut self,
        now: Time,
        class: Class,
        last: Seq,
        slots: &mut Slots<B>,
        timing: &Timing,
    ) -> (u32, Time) {
        let order = self.reordering.as_deref();
        let min_resend_age = order.map_or(self.rtt.min_resend_age(), |order| order.min_resend_age(&self.rtt));
        let tolerance = self.tolerance();
        let rule = LossRule { now, tolerance, min_resend_age, doubted: self.seq_in_doubt(class) };
        let lost = self.send[class].resend_lost(slots, last, &rule);
        if lost.count > 0
            && let Some(order) = &mut self.reordering
        {
            if lost.has_doubted {
                order.drop_doubt();
            }
            if let Some(message) = lost.first_time {
                order.begin_doubt(now, class, message, &self.rtt, timing);
            }
        }
        (lost.count, lost.next)
    }

    /// When the oldest message in flight was sent. `None` if all of them are in the reject queue, which has a pace of
    /// its own.
    pub(crate) fn oldest_sent_at<B>(&self, now: Time, slots: &Slots<B>) -> Option<Time> {
        let oldest = Class::ALL.iter().filter_map(|&class| self.send[class].oldest_in_flight(slots));
        oldest.map(|link| &slots[link]).map(|slot| if slot.times_sent > 0 { slot.sent_at } else { now }).min()
    }
}
