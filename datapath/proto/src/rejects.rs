//! Rejects (NACKs), for requests that find no room (FM 1.0, §4.5: return to sender). A reject has only the sequence number.
//! The sender has kept the request, and sends it again.
//!
//! The queue of rejects is pushed by: requests that find no room. Popped by: `transmit_reject`, when outputs are drained.
//! Bounded by: [`MAX_PENDING_REJECTS`]. When full: the reject is dropped and counted. The sender's RTO then sends the
//! request again.

use std::collections::VecDeque;

use am_wire::bounce::RejectTemplate;
use am_wire::control::Control;
use am_wire::frame::LinkAddresses;
use am_wire::{Address, Buffer, Class, Flow, Header, Kind, Reject, Seq};

use crate::FlowId;
use crate::control_queue::PendingReject;
use crate::counters::Counters;
use crate::flow::{FlowRecord, Phase};
use crate::flows::Look;
use crate::mutants::{self, Mutant};
use crate::node::{Core, MAX_PENDING_REJECTS};
use crate::output::{Command, Transmit};
use crate::receive_queue::Verdict;
use crate::rtt::Timing;
use crate::time::{Time, TimerKind, Timers};

impl<B: Buffer> Core<B> {
    /// Record whether there is room, and notify the transport of a change. A transport that can reject requests by itself
    /// does so until half of the room is free again. It has no segment key, so on a segment with a key it rejects nothing.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        if self.receiving.is_full != is_full {
            self.receiving.is_full = is_full;
            if self.config.key.is_none() {
                self.outputs.commands.push_back(Command::RxFull(is_full));
            }
        }
    }

    /// A flow opened: give the transport the template of its rejects.
    pub(crate) fn set_reject_template(&mut self, id: FlowId) {
        let Some(route) = self.flows.get(id).map(|record| record.route) else { return };
        let link = LinkAddresses { to: route.to, from: self.config.address, ethertype: self.config.ethertype };
        let template = RejectTemplate::new(route.framing, &link, route.flow, route.nonce);
        self.outputs.commands.push_back(Command::RejectTemplate(id.flow, template));
    }

    /// From below: a new path leads to this address. Give the transport the reject templates of its flows again.
    #[cold]
    pub fn on_new_path(&mut self, to: Address) {
        for id in self.flows.filter(|record| record.phase == Phase::Open && record.route.to == to) {
            self.set_reject_template(id);
        }
    }

    /// Transmit the next pending reject. Skips those of messages that were accepted since, and of ended flows.
    #[cold]
    pub(crate) fn transmit_reject(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        while let Some(reject) = self.sending.pending_rejects.pop_front() {
            let class = if let Reject::NoHandler(class) = reject.what { class } else { Class::Request };
            let is_pending = |record: &Look<'_>| {
                record.phase == Phase::Open && record.receive[class].verdict(reject.seq) != Verdict::Duplicate
            };
            if self.flows.get(reject.flow).filter(is_pending).is_none() {
                continue;
            }
            let transmit = self.write_reject(&reject, fresh);
            if transmit.is_none() {
                self.sending.pending_rejects.push_front(reject);
            }
            self.counters.rejects_sent += u64::from(transmit.is_some() && reject.what == Reject::NoRoom);
            return transmit;
        }
        None
    }

    /// The peer rejected a request of this node. It is sent again after a pause. A reject that is late, duplicate or of a
    /// message that was never sent changes nothing.
    #[cold]
    pub(crate) fn on_reject(&mut self, flow: Flow, seq: Seq) {
        let Some(record) = self.flows.by_flow(flow) else { return };
        let rejected = record.send[Class::Request].reject(&mut self.slots, seq);
        if rejected == 0 {
            self.counters.rejects_stale += 1;
            return;
        }
        self.counters.rejects_received += rejected as u64;
        record.rejects.on_rejected();
        if !record.rejects.timer.is_armed() && !mutants::is_active(Mutant::LostReject) {
            let pause = record.rtt.reject_pause(&self.time.timing, record.rejects.backoff);
            // A random part, because senders that were rejected together must not send again together.
            let pause = pause + self.random.next() % (pause / 2 + 1);
            self.time.timers.arm(&mut record.rejects.timer, TimerKind::Reject, flow.id(), self.now.later(pause));
        }
    }

    /// The pause ended: send a batch of rejected messages again.
    pub(crate) fn reject_timeout(&mut self, now: Time, at: Time, flow: Option<Flow>) {
        let Some(record) = flow.and_then(|flow| self.flows.by_flow(flow)) else { return };
        let rejects = &mut record.rejects;
        if !rejects.timer.take_if_due(at) || record.phase != Phase::Open {
            return;
        }
        rejects.is_pause_too_long = false;
        let batch = rejects.batch as u32;
        let resent = record.send[Class::Request].resend(&mut self.slots, batch as usize, |slot| Some(slot.rejected));
        self.counters.rejected_resent += resent as u64;
        rejects.is_retrying |= resent > 0;
        if resent >= batch {
            // There may be more.
            let pause = record.rtt.reject_pause(&self.time.timing, rejects.backoff);
            let pause = pause + self.random.next() % (pause / 2 + 1);
            self.time.timers.arm(&mut rejects.timer, TimerKind::Reject, record.id.flow.id(), now.later(pause));
        }
    }

    /// Write a reject of a flow that is open.
    pub(crate) fn write_reject(
        &mut self,
        reject: &PendingReject,
        fresh: &mut dyn FnMut() -> Option<B>,
    ) -> Option<Transmit<B>> {
        let route = self.flows.get(reject.flow)?.route;
        let Some(frame) = fresh() else {
            self.counters.no_frame += 1;
            return None;
        };
        let (flow, nonce, seq) = (route.flow, route.nonce, reject.seq.0);
        let header = Header { kind: Kind::Reject, flow, nonce, handler: 0, words: 0, seq };
        let content = reject.what.body();
        let mut body = [0; 1 + Control::AUTH_CODE_BYTES];
        body[..content.len()].copy_from_slice(content);
        let mut length = content.len();
        if let Some(key) = &self.config.key {
            let code = key.reject_code([route.to, self.config.address], (flow, nonce), reject.seq, content);
            body[length..length + code.len()].copy_from_slice(&code);
            length += code.len();
        }
        self.build_frame(frame, route.to, route.framing, &header, &body[..length])
    }
}

impl FlowRecord {
    /// There is no room for a message. A reject shows its sender that this node is busy and not gone. A reply is not
    /// rejected, because this node set room aside for it when it sent the request. Its sender gets an acknowledgement
    /// instead, which shows that this node is alive.
    #[cold]
    pub(crate) fn reject(
        &mut self,
        class: Class,
        seq: Seq,
        is_endpoint_fault: bool,
        pending: &mut VecDeque<PendingReject>,
        counters: &mut Counters,
    ) {
        counters.no_room += 1;
        counters.endpoint_faults += u64::from(is_endpoint_fault);
        if class == Class::Reply {
            self.ack_forced = true;
        } else if pending.len() < MAX_PENDING_REJECTS {
            pending.push_back(PendingReject { flow: self.id, seq, what: Reject::NoRoom });
        } else {
            counters.rejects_dropped += 1;
        }
    }

    /// If `is_pause_too_long` is set, the receiver has room again: shorten the pause.
    #[inline]
    pub(crate) fn shorten_pause(&mut self, now: Time, timers: &mut Timers, timing: &Timing) {
        if self.rejects.is_pause_too_long {
            self.rejects.is_pause_too_long = false;
            let due = now.later(self.rtt.reject_pause(timing, 0));
            timers.arm(&mut self.rejects.timer, TimerKind::Reject, self.id.flow.id(), due);
        }
    }
}
