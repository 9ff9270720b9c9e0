//! From below: what could wait until the doorbell had rung.
//!
//! A message goes from the frame to its handler, and its answer to the wire,
//! before anybody looks at the clock. What others have done with our messages,
//! and when ours left, is looked at while the frames are on their way:
//! FM 1.0's rule that nothing is done in the critical loop that can be done
//! outside it (§4.2).

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
    /// From below: it is `now`, and what [`Core::poll_transmit`] gave is on its
    /// way. Call after the doorbell of a turn, or, in a turn without one, when
    /// there is nothing else to do. What follows from it leaves with the next turn.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        // What is noted was noted after this.
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

    /// Getter: whether acknowledgements came in frames of their own and have not been looked at.
    #[inline]
    pub fn has_acks(&self) -> bool {
        !self.deferred.acks_in.is_empty()
    }

    /// Getter: whether there is news of flows (messages that came in on them, or
    /// were released), or there may be room again, that was not looked at:
    /// [`Core::settle`] is to be called.
    #[inline]
    pub fn has_touched(&self) -> bool {
        !self.deferred.touched.is_empty() || self.receiving.full
    }

    /// Messages have left: their acknowledgements are waited for from now on.
    fn stamp(&mut self, now: Time) {
        let Core { deferred: Deferred { left, .. }, slots, flows, time: Times { timers, waits, .. }, .. } = self;
        // Messages that leave together are mostly of one flow: it is looked at once.
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
            // Who asks for credit is in no hurry.
            if !is_armed || record.rtt.starved > 0 {
                let due = now.later(record.rtt.timeout(waits));
                timers.arm(&mut record.resend_armed, Wait::Resend, slot.flow.id(), due);
            }
        }
    }

    /// Flows that messages came in on, or whose messages were handled.
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

    /// An acknowledgement in a frame of its own, checked.
    #[inline]
    pub(crate) fn put_acks(&mut self, flow: Flow, acks: Acks) {
        self.counters.acks_received += 1;
        self.deferred.acks_in.push_back((flow, acks));
    }
}

impl FlowRecord {
    /// What was handled of the other side is counted, and its credit made to fit
    /// its share: it gets at most one more for each that it used, and so twice as
    /// many in a round trip. What waits for an earlier message keeps its credit; where the network reorders its sender gets
    /// another for it, since that would cost half of the rate. Whether it should hear of them soon.
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

    /// An acknowledgement rode in on a message. One that is not looked at yet
    /// gives way to a later one.
    #[inline]
    pub(crate) fn put_told(&mut self, told: Piggyback) {
        self.told = Some(match self.told {
            Some(earlier) if earlier != told => earlier.later(told),
            _ => told,
        });
    }

    /// Most say something new of one class only.
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

    /// The receiver has everything before `accepted` and allows everything
    /// before `limit`.
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

    /// A message's round trip is over. Told apart from the acknowledgement,
    /// which may be looked at when it is not known how late it is.
    #[inline]
    fn take_sample(&mut self, now: Time) {
        if self.sampled != Time::NEVER {
            let sent_at = mem::replace(&mut self.sampled, Time::NEVER);
            self.rtt.sample(now.since(sent_at));
            self.rtt.backoff = 0;
        }
    }

    /// A gap was closed that later messages had passed: something had been lost, or came late.
    #[cold]
    fn on_closed(&mut self, closed: &Closed) {
        // Otherwise each message may have been sent again before its
        // acknowledgement could come: only a longer wait ends that (Karn).
        self.rtt.backoff = 0;
        if let &Closed::Late(sent_at) = closed {
            // The peer was heard just now, or, where the clock was not looked at since, earlier.
            let age = self.silence.since().since(sent_at);
            if let Some(order) = &mut self.order {
                order.came_late(age);
            }
        }
    }
}
