//! From below: time has passed.

use am_wire::{Address, Buffer, Class, Flow};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Command, ReturnReason};
use crate::send_queue::SendQueue;
use crate::slots::Slots;
use crate::time::Time;
use crate::timers::Wait;

/// The most messages of a class that are sent again at a time-out. More follow when these are acknowledged, so a
/// receiver that was descheduled is not flooded.
const BURST: usize = 32;

impl<B: Buffer> Core<B> {
    /// From below: it is `now`. Call it when [`Core::sleep_until`] is reached; an earlier call does no harm.
    #[inline(never)]
    pub fn on_timeout(&mut self, now: Time) {
        self.settle(now);
        while let Some((at, wait, owner)) = self.time.timers.pop(now) {
            match wait {
                Wait::Ack => self.ack_timeout(now, at, Flow::new(owner)),
                Wait::Resend => self.resend_timeout(now, at, Flow::new(owner)),
                Wait::Reject => self.reject_timeout(now, at, Flow::new(owner)),
                Wait::Setup => self.setup_timeout(now, at, Flow::new(owner)),
                Wait::Probe => self.probe_timeout(now, at, owner),
                Wait::Beacon => self.beacon_timeout(now, at),
                Wait::Quiet => self.quiet_timeout(now, at),
            }
        }
    }

    fn ack_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        if !record.ack_armed.fired(at) || record.ack_at == Time::NEVER || record.phase != Phase::Open {
            return;
        }
        if record.ack_at <= now {
            record.ack_at = Time::NEVER;
            return record.queue_ack(&mut self.sending.acks_due);
        }
        self.time.timers.arm(&mut record.ack_armed, Wait::Ack, record.id.flow.id(), record.ack_at);
    }

    fn resend_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        if record.phase != Phase::Open || !record.resend_armed.fired(at) {
            return;
        }
        let id = record.id;
        if !record.in_flight() {
            return self.ask_for_credit(now, id.flow);
        }
        let tolerance = record.tolerance();
        let timeout = record.rtt.timeout(&self.time.waits).max(tolerance);
        let Some(since) = record.waits_since(now, &self.slots) else { return };
        if Class::ALL.iter().any(|&class| record.send[class].is_stuck(&mut self.slots, now, self.config.patience)) {
            let node = record.remote.node;
            self.end(id, ReturnReason::Unreachable, None);
            return node.into_iter().for_each(|(node, _)| self.forget_path(node));
        }
        let due = since.later(timeout);
        if now < due {
            let next = if tolerance > 0 { self.resend_late(now, id.flow).min(due) } else { due };
            let Some(record) = self.flows.by_flow(id.flow) else { return };
            return self.time.timers.arm(&mut record.resend_armed, Wait::Resend, id.flow.id(), next);
        }
        if record.silence.is_over(now, self.config.patience) {
            return self.end(id, ReturnReason::Unreachable, None);
        }
        self.resend(now, id.flow);
    }

    fn resend(&mut self, now: Time, flow: Flow) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        self.counters.timeouts += 1;
        for class in Class::ALL {
            let doubted = record.doubted(class);
            if record.send[class].resend_oldest(&mut self.slots, &mut self.sending.ready, BURST, doubted)
                && let Some(order) = &mut record.order
            {
                order.drop_doubt();
            }
        }
        record.rtt.backoff = record.rtt.backoff.saturating_add(1);
        let next = now.later(record.rtt.timeout(&self.time.waits));
        self.time.timers.arm(&mut record.resend_armed, Wait::Resend, flow.id(), next);
        if record.silence.ask() {
            let to = record.route.to;
            self.silent(to);
        }
    }

    /// All credit is used and nothing is in flight. The grant of more may have been lost, so ask for it (TCP's persist
    /// timer).
    fn ask_for_credit(&mut self, now: Time, flow: Flow) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let is_starved = record.send.0.iter().any(SendQueue::is_starved);
        if !is_starved {
            return;
        }
        if record.silence.is_over(now, self.config.patience) {
            let id = record.id;
            return self.end(id, ReturnReason::Unreachable, None);
        }
        record.silence.ask();
        self.sending.control.push(record.route.to, record.question());
        let wait = (record.rtt.timeout(&self.time.waits) << record.rtt.starved.min(20)).min(self.time.waits.most);
        record.rtt.starved = record.rtt.starved.saturating_add(1);
        self.time.timers.arm(&mut record.resend_armed, Wait::Resend, flow.id(), now.later(wait));
    }

    /// No answer comes from this address. Tell the transport. With several transports the peer may be reachable through
    /// another, and neither side has sent a beacon there yet because that connection came up later. So send one.
    fn silent(&mut self, to: Address) {
        self.outputs.commands.push_back(Command::ReportLoss(to));
        if !self.sending.control.introduces_to(to) {
            self.introduce(to, true);
        }
    }
}

impl FlowRecord {
    /// When the oldest message in flight was sent. `None` if all of them are in the reject queue, which has a pace of
    /// its own.
    fn waits_since<B: Buffer>(&self, now: Time, slots: &Slots<B>) -> Option<Time> {
        let oldest = Class::ALL.iter().filter_map(|&class| self.send[class].oldest(slots));
        oldest.map(|link| &slots[link]).map(|slot| if slot.sent > 0 { slot.sent_at } else { now }).min()
    }
}
