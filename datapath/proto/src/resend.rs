//! The RTO of a flow, and its requests for credit.

use am_wire::{Buffer, Class, Flow};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Command, ReturnReason};
use crate::send_queue::SendQueue;
use crate::signs_of_life::QUESTION_INTERVAL;
use crate::time::{Time, TimerKind};

/// The most messages of a class that are sent again when the RTO expires. More follow when these are acknowledged, so
/// that a receiver that was descheduled is not flooded.
const MAX_RESENT: usize = 32;

impl<B: Buffer> Core<B> {
    pub(crate) fn resend_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        if record.phase != Phase::Open || !record.resend_timer.take_if_due(at) {
            return;
        }
        let id = record.id;
        if !record.in_flight() {
            return self.ask_for_credit(now, id.flow);
        }
        if record.rtt.backoff > 0 && self.wait_for_poll(now, id.flow) {
            return;
        }
        let Some(record) = self.flows.by_flow(id.flow) else { return };
        let tolerance = record.tolerance();
        let timeout = record.rtt.rto(&self.time.timing).max(tolerance);
        let Some(since) = record.oldest_sent_at(now, &self.slots) else { return };
        if Class::ALL.iter().any(|&class| record.send[class].is_stuck(&mut self.slots, now, self.config.patience)) {
            let node = record.peer.node;
            self.end_flow(id, ReturnReason::Unreachable, None);
            return node.into_iter().for_each(|(node, _)| self.forget_path(node));
        }
        let due = since.later(timeout);
        if now < due {
            let next = if tolerance > 0 { self.resend_overdue(now, id.flow).min(due) } else { due };
            let Some(record) = self.flows.by_flow(id.flow) else { return };
            return self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, id.flow.id(), next);
        }
        if record.silence.exceeds(now, self.config.patience) {
            return self.end_flow(id, ReturnReason::Unreachable, None);
        }
        self.resend(now, id.flow);
    }

    pub(crate) fn resend(&mut self, now: Time, flow: Flow) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        self.counters.timeouts += 1;
        for class in Class::ALL {
            let doubted = record.seq_in_doubt(class);
            if record.send[class].resend_oldest(&mut self.slots, MAX_RESENT, doubted)
                && let Some(order) = &mut record.reordering
            {
                order.drop_doubt();
            }
        }
        record.rtt.backoff = record.rtt.backoff.saturating_add(1);
        let next = now.later(record.rtt.rto(&self.time.timing));
        self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, flow.id(), next);
        if record.silence.count_probe() {
            // No answer comes from this address, so report this to the transport. With several transports, the peer may be
            // reachable through another one, on which neither side has sent a beacon yet because it came up later. So send
            // a beacon.
            let to = record.route.to;
            self.outputs.commands.push_back(Command::ReportLoss(to));
            self.outputs.commands.extend(record.question_of_life(now));
            if !self.sending.control.has_beacon_to(to) {
                self.send_beacon(to, true);
            }
        }
    }

    /// All credit is used and nothing is in flight. The acknowledgement that granted more may have been lost, so ask for
    /// it (TCP's persist timer).
    pub(crate) fn ask_for_credit(&mut self, now: Time, flow: Flow) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let is_starved = record.send.0.iter().any(SendQueue::is_out_of_credit);
        if !is_starved || self.wait_for_poll(now, flow) {
            return;
        }
        let Some(record) = self.flows.by_flow(flow) else { return };
        if record.silence.exceeds(now, self.config.patience) {
            let id = record.id;
            return self.end_flow(id, ReturnReason::Unreachable, None);
        }
        record.silence.count_probe();
        self.outputs.commands.extend(record.question_of_life(now));
        self.sending.control.push(record.route.to, record.keepalive_question(self.config.max_message));
        let wait =
            (record.rtt.rto(&self.time.timing) << record.rtt.credit_requests.min(20)).min(self.time.timing.max_timeout);
        record.rtt.credit_requests = record.rtt.credit_requests.saturating_add(1);
        self.time.timers.arm(&mut record.resend_timer, TimerKind::Resend, flow.id(), now.later(wait));
    }
}

impl FlowRecord {
    /// After a longer silence: the question to the transport whether the peer's process lives.
    fn question_of_life(&self, now: Time) -> Option<Command> {
        (now - self.silence.since >= QUESTION_INTERVAL).then_some(Command::AskAlive(self.route.to))
    }
}
