//! Output: the next frame to send. Control frames go first, because they are rare. Messages follow, with piggybacked
//! acknowledgements. The remaining acknowledgements go last. A message may be too long for a piggyback. If the transport
//! then has no room for it, a due acknowledgement overtakes it: otherwise a stream of long messages could hold
//! acknowledgements up for ever.
//!
//! **Coalescing.** Small messages of one flow and class that are ready together share a frame: [`Core::append`] has written them there. No
//! message waits for another: if only one is ready, it leaves alone. A lost frame is sent again as it was. If some of its messages have
//! arrived or were returned, the others leave without them.

use std::collections::VecDeque;
use std::mem;

use am_wire::control::Control;
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Acks, Address, Buffer, Class, Flow, Framing, Header, Kind, Piggyback, Reject, ShortMessage, Template};

use crate::config::Config;
use crate::control_queue::{DeferredControl, Outgoing, OutgoingControl, PendingReject};
use crate::counters::Counters;
use crate::flow::{FlowRecord, Phase, Route};
use crate::mutants::{self, Mutant};
use crate::node::Core;
use crate::output::{Transmit, Transmitted};
use crate::slots::{Leaves, Slot, SlotIndex};

impl<B: Buffer> Core<B> {
    /// Output: hand the next frames, at most `most`, to `send`, which returns whether the transport took it. The first one that it does
    /// not take ends the call: the next call offers it again, or its message in another frame. `fresh` allocates frames for control
    /// frames and acknowledgements. If it has none, these wait.
    #[inline(always)]
    pub fn transmit(
        &mut self,
        most: usize,
        fresh: &mut dyn FnMut() -> Option<B>,
        mut send: impl FnMut(Address, &B) -> bool,
    ) -> Transmitted {
        let mut done = Transmitted::default();
        if !self.sending.control.0.is_empty() || self.sending.answer_first {
            self.transmit_before(most, &mut done, fresh, &mut send);
            if !done.may_go_on(most) {
                return done;
            }
        }
        let mut taken = done.taken;
        while let Some(link) = self.slots.ready.pop_front() {
            match self.transmit_message(link, fresh, &mut send) {
                None => {}
                Some(false) => return Transmitted { taken, is_refused: true },
                Some(true) => {
                    taken += 1;
                    if taken == most {
                        break;
                    }
                }
            }
        }
        if self.sending.acks_due.is_empty()
            && self.sending.pending_rejects.is_empty()
            && self.sending.deferred_control.is_empty()
        {
            return Transmitted { taken, is_refused: false };
        }
        self.transmit_after(most, taken, fresh, &mut send)
    }

    /// Control frames, and an answer that messages have kept from leaving.
    #[cold]
    fn transmit_before(
        &mut self,
        most: usize,
        done: &mut Transmitted,
        fresh: &mut dyn FnMut() -> Option<B>,
        mut send: impl FnMut(Address, &B) -> bool,
    ) {
        while done.may_go_on(most)
            && let Some(transmit) = self.transmit_control(fresh)
        {
            done.note(self.offer(transmit, &mut send));
        }
        if done.may_go_on(most)
            && mem::take(&mut self.sending.answer_first)
            && let Some(transmit) = self.transmit_answer(fresh)
        {
            done.note(self.offer(transmit, send));
        }
    }

    /// What leaves when no message waits, after this many frames.
    #[inline(never)]
    fn transmit_after(
        &mut self,
        most: usize,
        taken: usize,
        fresh: &mut dyn FnMut() -> Option<B>,
        mut send: impl FnMut(Address, &B) -> bool,
    ) -> Transmitted {
        let mut done = Transmitted { taken, is_refused: false };
        while done.may_go_on(most)
            && let Some(transmit) = self.transmit_answer(fresh).or_else(|| self.transmit_deferred(fresh))
        {
            done.note(self.offer(transmit, &mut send));
        }
        done
    }

    /// The transport has no room for a message without a piggyback. A due acknowledgement or reject leaves before it. A
    /// Close does not, because it would end the message.
    #[cold]
    fn send_answer_first(&mut self) {
        self.sending.answer_first = !(self.sending.acks_due.is_empty() && self.sending.pending_rejects.is_empty());
    }

    /// Output: the next frame, for callers that keep frames.
    pub fn poll_transmit(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        let mut next = None;
        self.transmit(1, fresh, |to, frame| {
            next = Some(Transmit { to, frame: frame.share() });
            true
        });
        next
    }

    /// Hand over a frame of which the core has the only handle. Returns whether it was taken.
    pub(crate) fn offer(&mut self, transmit: Transmit<B>, mut send: impl FnMut(Address, &B) -> bool) -> bool {
        let sent = send(transmit.to, &transmit.frame);
        if !sent {
            self.sending.control.0.push_front(Outgoing::NotTaken(transmit));
        }
        sent
    }

    /// Hand over the frame at the front of the ready queue, which was popped. Returns whether it was taken; `None` if nothing of it is to
    /// be sent now.
    #[inline(always)]
    fn transmit_message(
        &mut self,
        link: SlotIndex,
        fresh: &mut dyn FnMut() -> Option<B>,
        mut send: impl FnMut(Address, &B) -> bool,
    ) -> Option<bool> {
        let slot = self.slots.slots.get_mut(link as usize)?;
        slot.queued = false;
        if slot.leaves != Leaves::Whole {
            return self.transmit_left(link, fresh, send);
        }
        let record = self.flows.active(slot.flow)?;
        let &mut Slot { class, kind, handler, words, seq, body, .. } = slot;
        if mutants::is_active(Mutant::WaitsForCompany)
            && slot.count == 1
            && (body as usize) < self.config.coalesce_below
        {
            return None;
        }
        let (to, body, frame) = (record.route.to, body as usize, slot.frame.as_mut()?);
        // There is no space while the NIC still holds the frame: its bytes must not change then.
        if let Some(space) = frame.space() {
            let is_message = matches!(kind, Kind::Request | Kind::Reply);
            if is_message && record.template.as_ref().is_some_and(|template| template.takes(body)) {
                let acks = record.take_piggyback();
                if let (Some(template), Some(space)) = (&record.template, space.first_chunk_mut()) {
                    self.counters.piggybacks_sent += 1;
                    template.emit(space, &ShortMessage { class, handler, words, seq, body, acks });
                }
            } else {
                let Route { flow, nonce, framing, .. } = record.route;
                let acks_due = &mut self.sending.acks_due;
                let piggyback = record.piggyback_for(class, framing, body, &mut self.counters, acks_due);
                let header = Header { kind, flow, nonce, handler, words, seq: seq.0 };
                let length = record.emit(&self.config, space, &header, body, piggyback)?;
                frame.set_len(length);
            }
        }
        if !send(to, frame) {
            return self.requeue(link);
        }
        if slot.count > 1 {
            self.counters.bundles_sent += 1;
            self.counters.bundled_sent += u64::from(slot.count);
        }
        slot.note_sent(&mut self.counters);
        self.deferred.just_sent.push(link);
        Some(true)
    }

    /// Some messages of this frame, which was popped, were acknowledged or returned, or all: hand over the next of those that are left, or
    /// the withdrawal of a number. Returns whether the transport took it; `None` if nothing is left.
    #[cold]
    fn transmit_left(
        &mut self,
        link: SlotIndex,
        fresh: &mut dyn FnMut() -> Option<B>,
        send: impl FnMut(Address, &B) -> bool,
    ) -> Option<bool> {
        if self.slots[link].leaves == Leaves::Not {
            self.slots.free_popped(link);
            return None;
        }
        let next = self.slots.left_mut(link).pop();
        let Some(transmit) = next.and_then(|(place, count)| self.write_left(link, place, count, fresh)) else {
            // All have left, or there is no frame for the next one: the RTO sends what is left again.
            self.slots.left_mut(link).next = 0;
            self.slots[link].note_sent(&mut self.counters);
            self.deferred.just_sent.push(link);
            return None;
        };
        self.slots.ready.push_front(link);
        self.slots[link].queued = true;
        Some(self.offer(transmit, send))
    }

    /// A frame with these messages of a frame, or with the withdrawal of one that was returned.
    fn write_left(
        &mut self,
        link: SlotIndex,
        place: u8,
        count: u8,
        fresh: &mut dyn FnMut() -> Option<B>,
    ) -> Option<Transmit<B>> {
        let is_returned = self.slots.left(link).returned >> place & 1 == 1;
        let slot = &self.slots[link];
        let (class, seq) = (slot.class, slot.seq.plus(place.into()));
        let record = self.flows.active(slot.flow)?;
        let (id, Route { to, flow, nonce, framing, .. }) = (record.id, record.route);
        if is_returned {
            return self.write_reject(&PendingReject { flow: id, seq, what: Reject::Withdrawn(class) }, fresh);
        }
        let all = slot.whole(framing.body_at())?;
        let body = Slot::<B>::run(all.bytes().get(framing.body_at()..)?, place, count)?;
        let header = Header { kind: Kind::Coalesced(class), flow, nonce, handler: 0, words: 0, seq: seq.0 };
        self.build_frame(fresh()?, to, framing, &header, body)
    }

    /// The transport did not take this message: it goes to the front of the ready queue.
    #[cold]
    fn requeue(&mut self, link: SlotIndex) -> Option<bool> {
        self.slots.ready.push_front(link);
        let slot = &mut self.slots[link];
        slot.queued = true;
        let was_written = slot.frame.as_mut().is_some_and(|frame| frame.space().is_some());
        let Some(record) = self.flows.active(slot.flow) else { return Some(false) };
        if !frame::has_room_for_piggyback(record.route.framing, slot.body as usize) {
            self.send_answer_first();
        } else if was_written {
            // The peer received no acknowledgement. The next piggyback carries it, or a frame of its own.
            self.counters.piggybacks_sent -= 1;
            record.unacked = record.unacked.max(1);
            record.queue_ack(&mut self.sending.acks_due);
        }
        Some(false)
    }

    /// A reject or an acknowledgement. Rejects leave first: otherwise the sender would take the gap in the
    /// acknowledgement for a lost message, although the message was rejected.
    fn transmit_answer(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        let reject = if self.sending.pending_rejects.is_empty() { None } else { self.transmit_reject(fresh) };
        reject.or_else(|| self.transmit_ack(fresh))
    }

    #[cold]
    fn transmit_deferred(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        while let Some(later) = self.sending.deferred_control.pop_front() {
            let next = match later {
                DeferredControl::Close(flow) => self.next_close(flow),
                DeferredControl::Closed(flow) => {
                    let ended = self.discovery.unknown_flows.closed_flow(flow, None);
                    ended.map(|ended| (ended.to, Control::Closed(ended.closed)))
                }
                DeferredControl::Keepalive(flow) => self.next_keepalive(flow),
            };
            let Some((to, body)) = next else { continue };
            let outgoing = OutgoingControl { to, framing: Framing::Plain, body, min_length: 0 };
            let transmit = self.write_control(&outgoing, fresh);
            if transmit.is_none() {
                self.sending.deferred_control.push_front(later);
            }
            return transmit;
        }
        None
    }

    fn transmit_ack(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        while let Some(flow) = self.sending.acks_due.pop_front() {
            let Some(record) = self.flows.active(flow) else {
                let sent = self.transmit_idle_ack(flow, fresh);
                if sent.is_some() || self.sending.acks_due.front() == Some(&flow) {
                    return sent;
                }
                continue;
            };
            // The last acknowledgement of a closed flow travels in its Close.
            if record.phase != Phase::Open || !record.has_ack_to_send() {
                record.ack_queued = false;
                continue;
            }
            let Some(frame) = fresh() else {
                self.counters.no_frame += 1;
                self.sending.acks_due.push_front(flow);
                return None;
            };
            record.ack_queued = false;
            let (route, acks) = (record.route, record.take_acks());
            let seq = record.take_ack_hint().to_bits();
            let header = Header { kind: Kind::Ack, flow: route.flow, nonce: route.nonce, handler: 0, words: 0, seq };
            self.counters.acks_sent += 1;
            return self.build_frame(frame, route.to, route.framing, &header, &acks.to_bytes());
        }
        None
    }

    /// The answer to a keepalive about an idle flow.
    #[cold]
    fn transmit_idle_ack(&mut self, flow: Flow, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        let (route, acks) = self.flows.idle.acks(flow)?;
        let Some(frame) = fresh() else {
            self.counters.no_frame += 1;
            self.sending.acks_due.push_front(flow);
            return None;
        };
        self.flows.idle.note_answered(flow);
        let header = Header { kind: Kind::Ack, flow: route.flow, nonce: route.nonce, handler: 0, words: 0, seq: 0 };
        self.counters.acks_sent += 1;
        self.build_frame(frame, route.to, route.framing, &header, &acks.to_bytes())
    }

    fn transmit_control(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        let outgoing = match self.sending.control.0.pop_front()? {
            Outgoing::NotTaken(transmit) => return Some(transmit),
            Outgoing::Control(outgoing) => outgoing,
        };
        let transmit = self.write_control(&outgoing, fresh);
        if transmit.is_none() {
            self.sending.control.0.push_front(Outgoing::Control(outgoing));
        }
        transmit
    }

    fn write_control(
        &mut self,
        outgoing: &OutgoingControl,
        fresh: &mut dyn FnMut() -> Option<B>,
    ) -> Option<Transmit<B>> {
        let Some(mut frame) = fresh() else {
            self.counters.no_frame += 1;
            return None;
        };
        let length = self.emit_control(outgoing, frame.space()?)?;
        frame.set_len(length);
        self.counters.control_sent += 1;
        Some(Transmit { to: outgoing.to, frame })
    }
}

impl FlowRecord {
    /// Write a frame for which the template does not serve, and make the template if there is none. Returns its length, if it
    /// fits.
    #[inline(never)]
    fn emit(
        &mut self,
        config: &Config,
        space: &mut [u8],
        header: &Header,
        body: usize,
        piggyback: Option<Piggyback>,
    ) -> Option<usize> {
        let Route { to, flow, nonce, framing, .. } = self.route;
        let addresses = LinkAddresses { to, from: config.address, ethertype: config.ethertype };
        self.template = self.template.or_else(|| Template::new(framing, &addresses, flow, nonce));
        frame::emit(space, framing, &addresses, header, body, piggyback.as_ref()).ok()
    }

    /// The acknowledgement that piggybacks on a message with a body of this length, if there is room.
    #[inline(always)]
    fn piggyback_for(
        &mut self,
        class: Class,
        framing: Framing,
        body: usize,
        counters: &mut Counters,
        acks_due: &mut VecDeque<Flow>,
    ) -> Option<Piggyback> {
        let piggyback = frame::has_room_for_piggyback(framing, body).then(|| self.take_piggyback());
        counters.piggybacks_sent += piggyback.is_some() as u64;
        // The peer must learn that its request arrived. Otherwise the request could return as undelivered, although it
        // was answered. On an ordered flow the reply itself says so.
        if piggyback.is_none() && class == Class::Reply && self.unacked > 0 && !self.setup.is_ordered {
            self.queue_ack(acks_due);
        }
        piggyback
    }
}

const _: () = assert!(frame::ETHERNET_HEADER + 12 + Acks::BYTES <= 64, "an acknowledgement stays a small frame");
