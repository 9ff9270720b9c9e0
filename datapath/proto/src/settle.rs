//! From below: work deferred until after the doorbell.
//!
//! A message goes from its frame to its handler, and the reply to the wire, before anything reads the clock.
//! Acknowledgements are processed, and the times at which messages left are recorded, while the frames are in flight.
//! FM 1.0 has the same rule: nothing is done in the critical loop that can be done outside it (§4.2).

use std::collections::VecDeque;
use std::mem;

use am_wire::{Acks, Buffer, Class, Flow, Piggyback, Seq, expand};

use crate::credits::Budget;
use crate::flow::{FlowRecord, PerClass, Phase, Silence};
use crate::gaps::Gaps;
use crate::node::{Core, Deferred, Receiving, Sending, Times};
use crate::order::Order;
use crate::output::Command;
use crate::send_queue::Closed;
use crate::share::Share;
use crate::slots::{Link, Slots};
use crate::time::Time;
use crate::timers::Wait;

impl<B: Buffer> Core<B> {
    /// From below: it is `now`, and the frames of [`Core::transmit`] have been sent. Call after the doorbell of a turn,
    /// or, in a turn without one, when there is nothing else to do. Its results leave with the next turn.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        // Everything recorded since then happened after this time.
        let noted = mem::replace(&mut self.now, now);
        if !self.deferred.left.is_empty() {
            self.stamp(now);
        }
        if !self.deferred.touched.is_empty() {
            self.look_at_touched(noted, now);
        }
        if !self.deferred.acks_in.is_empty() {
            self.look_at_acks(now);
        }
        if self.receiving.full {
            self.look_at_room();
        }
    }

    /// Getter: whether acknowledgements in frames of their own wait to be processed.
    #[inline]
    pub fn has_acks(&self) -> bool {
        !self.deferred.acks_in.is_empty()
    }

    /// Getter: whether flows wait to be processed, because messages arrived or were released, or whether there may be
    /// room again. Then call [`Core::settle`].
    #[inline]
    pub fn has_touched(&self) -> bool {
        !self.deferred.touched.is_empty() || self.receiving.full
    }

    /// Messages left: start their retransmission time-outs.
    fn stamp(&mut self, now: Time) {
        let Core { deferred: Deferred { left, .. }, slots, flows, time: Times { timers, waits, .. }, .. } = self;
        // Messages that leave together are mostly of one flow: process it once.
        let mut seen = Flow::NODE;
        for link in left.drain(..) {
            let slot = &mut slots[link];
            slot.sent_at = now;
            if mem::replace(&mut seen, slot.flow) == slot.flow {
                continue;
            }
            let Some(record) = flows.by_flow(slot.flow) else { continue };
            let is_armed = record.resend_armed.is_armed();
            if !is_armed {
                record.silence = Silence::from(now);
            }
            // The time-out of a question for credit is longer than that of a message.
            if !is_armed || record.rtt.starved > 0 {
                let due = now.later(record.rtt.timeout(waits));
                timers.arm(&mut record.resend_armed, Wait::Resend, slot.flow.id(), due);
            }
        }
    }

    /// Process the flows on which messages arrived or were released.
    fn look_at_touched(&mut self, noted: Time, now: Time) {
        let Core { deferred: Deferred { touched, .. }, flows, slots, .. } = self;
        let Times { timers, waits, .. } = &mut self.time;
        let Sending { ready, acks_due, .. } = &mut self.sending;
        let Receiving { shares, budget, gaps, .. } = &mut self.receiving;
        for flow in touched.drain(..) {
            let Some(record) = flows.by_flow(flow) else { continue };
            record.touched = false;
            if record.phase == Phase::Open && record.share_out(now, shares, budget, gaps) {
                record.queue_ack(acks_due);
            }
            record.silence = Silence::from(now);
            if let Some(told) = record.told.take() {
                record.on_piggyback(&told, slots, ready);
            }
            record.take_sample(now);
            record.hurry(now, timers, waits);
            if record.ack_at == Time::NEVER && !record.ack_queued && record.has_to_tell() {
                record.ack_at = noted.later(waits.ack_delay);
                timers.arm(&mut record.ack_armed, Wait::Ack, flow.id(), record.ack_at);
            }
        }
        if budget.take_risen() {
            self.outputs.commands.push_back(Command::RxCredit(self.receiving.budget.promised()));
        }
    }

    fn look_at_acks(&mut self, now: Time) {
        while let Some((flow, acks)) = self.deferred.acks_in.pop_front() {
            let Some(record) = self.flows.by_flow(flow) else { continue };
            record.silence = Silence::from(now);
            for class in Class::ALL {
                let ack = acks.classes[class.index()];
                record.on_told(class, ack.accepted, ack.limit, &mut self.slots, &mut self.sending.ready);
                record.take_sample(now);
            }
            record.hurry(now, &mut self.time.timers, &self.time.waits);
            if acks.classes.iter().any(|ack| ack.sack != 0) {
                self.look_at_selected(now, flow, &acks);
            }
        }
    }

    /// Queue an acknowledgement that came in a frame of its own.
    #[inline]
    pub(crate) fn put_acks(&mut self, flow: Flow, acks: Acks) {
        self.counters.acks_received += 1;
        self.deferred.acks_in.push_back((flow, acks));
    }
}

impl FlowRecord {
    /// Count what was handled, and fit each sender's credit to its share. A sender below its share gets at most one
    /// extra credit for each that it used, and so at most doubles in a round trip. A held message keeps its credit.
    /// Where the network reorders, its sender gets another one for it, since otherwise the rate would halve. Returns
    /// whether the sender should learn of it soon.
    #[inline]
    fn share_out(&mut self, now: Time, shares: &mut PerClass<Share>, budget: &mut Budget, gaps: &mut Gaps) -> bool {
        let mut is_urgent = false;
        for class in Class::ALL {
            let (queue, share) = (&mut self.receive[class], &mut shares[class]);
            let handled = queue.take_handled();
            let is_late = |order: &Order| self.setup.is_ordered && order.peer_says_late(class);
            let waiting =
                if queue.beyond() > 0 && self.order.as_deref().is_some_and(is_late) { queue.beyond() } else { 0 };
            if handled > 0 || waiting > 0 {
                share.note(now, queue.used(), handled, gaps.take_lost());
                let lacks = queue.fit(share.each() + waiting.min(share.each()));
                if lacks > 0 {
                    queue.grow(budget.grow(queue.granted(), lacks.min(handled + waiting)));
                    is_urgent |= queue.is_urgent();
                }
            }
        }
        is_urgent
    }

    /// Keep a piggybacked acknowledgement. A later one replaces one that is not processed yet.
    #[inline]
    pub(crate) fn put_told(&mut self, told: Piggyback) {
        self.told = Some(match self.told {
            Some(earlier) if earlier != told => earlier.later(told),
            _ => told,
        });
    }

    /// Most piggybacks are news for one class only.
    #[inline]
    pub(crate) fn on_piggyback<B: Buffer>(
        &mut self,
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
                self.on_told(class, accepted, limit, slots, ready);
            }
        }
    }

    /// The receiver has everything before `accepted` and allows everything before `limit`.
    fn on_told<B: Buffer>(
        &mut self,
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
        if progress.closed != Closed::No {
            self.on_closed(&progress.closed);
        }
        self.sampled = progress.sample.unwrap_or(self.sampled);
        if progress.acked > 0 {
            self.rejects.accepted();
        }
        if self.rtt.starved > 0 && !self.send[class].is_starved() {
            self.rtt.starved = 0;
        }
    }

    /// Take the round-trip sample. It is separate from the acknowledgement, which may be processed before the time is
    /// known.
    #[inline]
    fn take_sample(&mut self, now: Time) {
        if self.sampled != Time::NEVER {
            let sent_at = mem::replace(&mut self.sampled, Time::NEVER);
            self.rtt.sample(now.since(sent_at));
            self.rtt.backoff = 0;
        }
    }

    /// A gap that later messages had overtaken is closed: by a repair, or by a late message.
    #[cold]
    fn on_closed(&mut self, closed: &Closed) {
        // Without this, each message could be sent again before its acknowledgement can arrive: only a longer wait ends
        // that (Karn).
        self.rtt.backoff = 0;
        if let &Closed::Late(sent_at) = closed {
            // The message that closed the gap arrived just now, or earlier if the clock was not read since.
            let age = self.silence.since().since(sent_at);
            if let Some(order) = &mut self.order {
                order.came_late(age);
            }
        }
    }
}
