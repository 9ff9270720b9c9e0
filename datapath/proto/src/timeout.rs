//! From below: time has passed.

use am_wire::{Buffer, Flow};

use crate::flow::Phase;
use crate::node::Core;
use crate::time::{Time, TimerKind};

impl<B: Buffer> Core<B> {
    /// From below: it is `now`. Call it when [`Core::sleep_until`] is reached; an earlier call does no harm.
    #[inline(never)]
    pub fn on_timeout(&mut self, now: Time) {
        self.run_deferred(now);
        while let Some((at, wait, owner)) = self.time.timers.pop(now) {
            match wait {
                TimerKind::Ack => self.ack_timeout(now, at, Flow::new(owner)),
                _ => self.on_rare_timer(now, at, wait, owner),
            }
        }
    }

    // Inlined, it would make each call begin with work for all kinds of timers.
    #[inline(never)]
    fn on_rare_timer(&mut self, now: Time, at: Time, wait: TimerKind, owner: u16) {
        match wait {
            TimerKind::Ack => {}
            TimerKind::Resend => self.resend_timeout(now, at, Flow::new(owner)),
            TimerKind::Reject => self.reject_timeout(now, at, Flow::new(owner)),
            TimerKind::Setup => self.setup_timeout(now, at, Flow::new(owner)),
            TimerKind::Probe => self.probe_timeout(now, at, owner),
            TimerKind::Beacon => self.beacon_timeout(now, at),
            TimerKind::Idle => self.idle_timeout(now, at),
            TimerKind::Keepalive => self.keepalive_timeout(now, at),
            TimerKind::Members => self.members_timeout(now, at),
        }
    }

    fn ack_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        if !record.ack_timer.take_if_due(at) || record.ack_at == Time::NEVER || record.phase != Phase::Open {
            return;
        }
        if record.ack_at <= now {
            record.ack_at = Time::NEVER;
            return record.queue_ack(&mut self.sending.acks_due);
        }
        self.time.timers.arm(&mut record.ack_timer, TimerKind::Ack, record.id.flow.id(), record.ack_at);
    }

    fn setup_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        if record.phase == Phase::Open || !record.resend_timer.take_if_due(at) {
            return;
        }
        let id = record.id;
        if record.phase == Phase::Closing { self.repeat_close(id) } else { self.advance_setup(now, id.flow) }
    }
}
