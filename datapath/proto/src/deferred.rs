//! From below: work deferred until after the doorbell.
//!
//! A message goes from its frame to its handler, and the reply to the wire, before anything reads the clock.
//! Acknowledgements are processed, and the times at which messages left are recorded, while the frames are in flight.
//! FM 1.0 has the same rule: nothing is done in the critical loop that can be done outside it (§4.2).

use std::mem;

use am_wire::{Buffer, Class, Flow, Piggyback, Seq, expand};

use crate::flow::{FlowRecord, Phase, Silence};
use crate::node::{Core, Deferred, Receiving, Times};
use crate::output::Command;
use crate::reordering::Reordering;
use crate::rtt::Answer;
use crate::send_queue::ClosedGap;
use crate::slots::Slots;
use crate::time::{Time, TimerKind};

impl<B: Buffer> Core<B> {
    /// From below: it is `now`, and the frames of [`Core::transmit`] have been sent. Call after the doorbell of a turn,
    /// or, in a turn without one, when there is nothing else to do. Its results leave with the next turn.
    // A turn that has nothing to do asks three questions here, and calls nothing.
    #[inline(always)]
    pub fn run_deferred(&mut self, now: Time) {
        // Everything recorded before this call happened after `recorded_at`.
        let recorded_at = mem::replace(&mut self.now, now);
        if !self.deferred.just_sent.is_empty() {
            self.start_rtos(now);
        }
        if !self.deferred.dirty.is_empty() {
            self.process_dirty(recorded_at, now);
        }
        if !self.deferred.received_acks.is_empty() {
            self.process_acks(now);
        }
        if self.receiving.is_full && self.endpoints.waiting_count <= self.endpoints.room[Class::Request] / 2 {
            self.set_full(false);
        }
    }

    /// From below: it is `now`, and there is no deferred work.
    #[inline]
    pub fn pass_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Getter: whether the deferred work may wait for some turns. It may not if it would free what may soon be short: credit that
    /// came in frames of their own, room for requests, or slots.
    #[inline]
    pub fn may_postpone(&self) -> bool {
        let slots = &self.slots;
        self.deferred.received_acks.is_empty() && !self.receiving.is_full && 2 * slots.free.len() >= slots.slots.len()
    }

    /// From below: the frames of [`Core::transmit`] have been sent, it is `now`, and the deferred work waits.
    #[inline]
    pub fn note_sent(&mut self, now: Time) {
        let Deferred { just_sent, timed, .. } = &mut self.deferred;
        let slots = &mut *self.slots.slots;
        just_sent[*timed..].iter().for_each(|&link| slots[link as usize].sent_at = now);
        *timed = just_sent.len();
    }

    /// Getter: whether flows wait to be processed, because messages arrived or were released, or whether there may be
    /// room again. Then call [`Core::run_deferred`].
    #[inline]
    pub fn has_deferred(&self) -> bool {
        !self.deferred.dirty.is_empty() || self.receiving.is_full
    }

    /// Messages left: start the RTO of their flows.
    #[inline(never)]
    fn start_rtos(&mut self, now: Time) {
        // Messages that leave together are mostly of one flow: process it once.
        let mut seen = Flow::NODE;
        self.note_sent(now);
        self.deferred.timed = 0;
        let slots = &*self.slots.slots;
        for &link in &self.deferred.just_sent {
            let slot = &slots[link as usize];
            if mem::replace(&mut seen, slot.flow) == slot.flow {
                continue;
            }
            let Some(record) = self.flows.active(slot.flow) else { continue };
            let is_armed = record.resend_timer.is_armed();
            if !is_armed {
                record.silence = Silence::from(now);
            }
            // The interval of requests for credit (TCP's persist timer) is longer than the RTO.
            if !is_armed || record.rtt.credit_requests > 0 {
                let due = now.later(record.rtt.rto(&self.time.timing));
                self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, slot.flow.id(), due);
            }
        }
        self.deferred.just_sent.clear();
    }

    /// Process the flows on which messages arrived or were released.
    #[inline(never)]
    fn process_dirty(&mut self, recorded_at: Time, now: Time) {
        let Times { timers, timing, .. } = &mut self.time;
        for &flow in &self.deferred.dirty {
            let Some(record) = self.flows.active(flow) else {
                self.flows.idle.note_received(now, flow);
                continue;
            };
            record.is_dirty = false;
            if record.phase == Phase::Open && record.fit_credits(now, &mut self.receiving) {
                record.queue_ack(&mut self.sending.acks_due);
            }
            record.silence = Silence::from(now);
            if let Some(piggyback) = record.pending_piggyback.take() {
                record.on_piggyback(piggyback, &mut self.slots);
            }
            record.take_sample(now, Answer::Message);
            record.shorten_pause(now, timers, timing);
            if record.ack_at == Time::NEVER && !record.ack_queued && record.has_ack_to_send() {
                record.ack_at = recorded_at.later(record.rtt.ack_wait(timing));
                timers.arm(&mut record.ack_timer, TimerKind::Ack, flow.id(), record.ack_at);
            }
        }
        self.deferred.dirty.clear();
        if let Some(peak) = self.receiving.budget.take_new_peak() {
            self.outputs.commands.push_back(Command::RxCredit(peak));
        }
    }

    #[inline(never)]
    fn process_acks(&mut self, now: Time) {
        while let Some((flow, acks)) = self.deferred.received_acks.pop_front() {
            let Some(record) = self.flows.active(flow) else { continue };
            record.silence = Silence::from(now);
            for class in Class::ALL {
                let ack = acks.classes[class.index()];
                record.on_ack_and_limit(class, ack.accepted, ack.limit, &mut self.slots);
                record.take_sample(now, Answer::Alone);
            }
            record.shorten_pause(now, &mut self.time.timers, &self.time.timing);
            if acks.classes.iter().any(|ack| ack.sack != 0) {
                self.process_selective_acks(now, flow, &acks);
            }
        }
    }
}

impl FlowRecord {
    /// Count handled messages, and fit the sender's credit to its share. A sender below its share gets at most one extra
    /// credit for each used one, so its credit at most doubles in a round trip. A message in the reorder buffer occupies
    /// its credit. Where the network reorders, the sender gets another credit for it: otherwise its rate would halve.
    /// Returns whether the sender should learn of the new credit soon.
    #[inline]
    fn fit_credits(&mut self, now: Time, receiving: &mut Receiving) -> bool {
        let [requests, replies] = Class::ALL.map(|class| {
            let (queue, share) = (&self.receive[class], &receiving.fair_shares[class]);
            let has_nothing = queue.ahead_count == 0
                && (queue.handled == 0
                    || receiving.gaps.lost == 0 && queue.may_be_counted_later(share.of_flow(&queue.usage)));
            !has_nothing && self.fit_credits_of(class, now, receiving)
        });
        requests || replies
    }

    #[inline(never)]
    fn fit_credits_of(&mut self, class: Class, now: Time, receiving: &mut Receiving) -> bool {
        let Receiving { fair_shares, gaps, budget, .. } = receiving;
        let (queue, share) = (&mut self.receive[class], &mut fair_shares[class]);
        let handled = mem::take(&mut queue.handled);
        let is_late = |order: &Reordering| self.setup.is_ordered && order.peer_losses[class.index()].gaps_covered > 0;
        let may_wait = queue.ahead_count > 0 && self.reordering.as_deref().is_some_and(is_late);
        let waiting = if may_wait { queue.ahead_count } else { 0 };
        if handled == 0 && waiting == 0 {
            return false;
        }
        share.count_messages(now, (&mut queue.usage, self.sender), handled, mem::take(&mut gaps.lost));
        let credits = share.of_flow(&queue.usage);
        let lacks = queue.fit_to_share(credits + waiting.min(credits));
        if lacks > 0 {
            queue.grant(budget.grow(queue.granted, lacks.min(handled + waiting)));
        }
        lacks > 0 && queue.is_urgent()
    }

    /// Keep a piggybacked acknowledgement for later. It replaces an earlier one that is not processed yet.
    #[inline]
    pub(crate) fn keep_piggyback(&mut self, piggyback: Piggyback) {
        self.pending_piggyback = Some(match self.pending_piggyback {
            Some(earlier) => earlier.later(piggyback),
            None => piggyback,
        });
    }

    /// A piggyback usually changes one class only, so an unchanged class is skipped.
    #[inline]
    pub(crate) fn on_piggyback<B>(&mut self, piggyback: Piggyback, slots: &mut Slots<B>) {
        for class in Class::ALL {
            let (near_accepted, near_limit) = self.send[class].expansion_base();
            let numbers = piggyback.class(class);
            if (numbers.accepted, numbers.limit) != (near_accepted.0 as u16, near_limit.0 as u16) {
                let accepted = expand(numbers.accepted as u32, 16, near_accepted);
                let limit = expand(numbers.limit as u32, 16, near_limit);
                self.on_ack_and_limit(class, accepted, limit, slots);
            }
        }
    }

    /// The receiver has everything before `accepted` and allows everything before `limit`.
    fn on_ack_and_limit<B>(&mut self, class: Class, accepted: Seq, limit: Seq, slots: &mut Slots<B>) {
        let queue = &mut self.send[class];
        let progress = queue.acknowledge(slots, accepted);
        queue.allow(limit);
        queue.queue_allowed(slots);
        if progress.closed_gap != ClosedGap::No {
            self.on_gap_closed(&progress.closed_gap);
        }
        self.sample_sent_at = progress.sample.unwrap_or(self.sample_sent_at);
        if progress.acked > 0 {
            self.rejects.on_accepted();
        }
        if self.rtt.credit_requests > 0 && !self.send[class].is_out_of_credit() {
            self.rtt.credit_requests = 0;
        }
    }

    /// Take the round-trip sample. It is separate from the acknowledgement, which may be processed before the time is
    /// known.
    #[inline]
    fn take_sample(&mut self, now: Time, by: Answer) {
        if self.sample_sent_at != Time::NEVER {
            let sent_at = mem::replace(&mut self.sample_sent_at, Time::NEVER);
            self.rtt.sample(now.since(sent_at), by);
            self.rtt.backoff = 0;
        }
    }

    /// A gap that later messages had overtaken is closed: by a repair, or by a late message.
    #[cold]
    fn on_gap_closed(&mut self, closed: &ClosedGap) {
        // The path delivers again, so end the back-off, although a message that was sent again gives no round-trip
        // sample (Karn).
        self.rtt.backoff = 0;
        if let &ClosedGap::Late(sent_at) = closed {
            // The message that closed the gap arrived just now, or earlier if the clock was not read since.
            let age = self.silence.since.since(sent_at);
            if let Some(order) = &mut self.reordering {
                order.note_late(age);
            }
        }
    }
}
