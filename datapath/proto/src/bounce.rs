//! A receiver without room returns requests to their senders (FM 1.0, §4.5):
//! only their numbers, since senders keep what they send.
//!
//! Pushed by: requests that find no room. Popped by: `poll_transmit`. Bounded
//! by: [`MOST`]. When full: the request is dropped and counted, and its
//! sender's time-out repairs that.

use std::collections::VecDeque;

use wire::bounce::Back;
use wire::frame::Link;
use wire::{Buffer, Class, Header, Kind, Piggyback, Seq};

use crate::FlowId;
use crate::counters::Counters;
use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::output::{Event, Transmit};
use crate::receive_queue::Verdict;

/// Some turns' worth of frames that arrive.
const MOST: usize = 512;

/// Requests to be returned.
#[derive(Debug)]
pub(crate) struct Bounces(VecDeque<(FlowId, Seq)>);

impl Bounces {
    pub(crate) fn new() -> Self {
        Bounces(VecDeque::with_capacity(MOST))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, flow: FlowId, seq: Seq) -> bool {
        let fits = self.0.len() < MOST;
        if fits {
            self.0.push_back((flow, seq));
        }
        fits
    }

    /// There is no room for a message. Its sender hears that it was seen: to
    /// be busy is not to be gone. A reply is not returned, as it has room of
    /// its own, which its receiver alone can overrun; an acknowledgement, which
    /// is forced then, says that we live.
    #[cold]
    pub(crate) fn turn_away(&mut self, record: &mut FlowRecord, class: Class, seq: Seq, counters: &mut Counters) {
        counters.no_room += 1;
        if class == Class::Request {
            counters.rejects_dropped += !self.push(record.id, seq) as u64;
        } else {
            record.ack_forced = true;
        }
    }
}

impl<B: Buffer> Core<B> {
    /// There is no room for a message that came alone; what rode on it counts.
    #[cold]
    pub(crate) fn turn_away(&mut self, id: FlowId, class: Class, seq: Seq, told: Option<Piggyback>) {
        self.gaps.lost(1);
        self.set_full(true);
        let Some(record) = self.flows.get_mut(id) else { return };
        if let Some(told) = told {
            record.put_told(told);
        }
        self.bounces.turn_away(record, class, seq, &mut self.counters);
        if record.ack_forced {
            record.queue_ack(&mut self.acks_due);
        }
    }

    /// A transport that can return requests by itself, before they cost us
    /// anything, does so until half of the room is free again.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        if self.full != is_full {
            self.full = is_full;
            self.events.push_back(Event::Full(is_full));
        }
    }

    /// The receiver is full: is it still?
    #[cold]
    pub(crate) fn look_at_room(&mut self) {
        if self.endpoints.has_plenty() {
            self.set_full(false);
        }
    }

    /// A flow is open: how its requests can be returned.
    pub(crate) fn tell_way_back(&mut self, id: FlowId) {
        let Some(route) = self.flows.get(id).map(|record| record.route) else { return };
        let wire = Link { to: route.to, from: self.config.address, ethertype: self.config.ethertype };
        let back = Back::new(route.framing, &wire, route.flow, route.nonce);
        self.events.push_back(Event::WayBack(id.flow, back));
    }

    /// The next reject; without one for what was accepted in the meantime, or
    /// whose flow is over.
    #[cold]
    pub(crate) fn transmit_reject(&mut self, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> {
        while let Some((id, seq)) = self.bounces.0.pop_front() {
            let Some(record) = self.flows.get(id).filter(|record| record.phase == Phase::Open) else { continue };
            if record.receive[Class::Request].verdict(seq) == Verdict::Duplicate {
                continue;
            }
            let Some(frame) = fresh() else {
                self.counters.no_frame += 1;
                self.bounces.0.push_front((id, seq));
                return None;
            };
            let route = record.route;
            let header =
                Header { kind: Kind::Reject, flow: route.flow, nonce: route.nonce, handler: 0, words: 0, seq: seq.0 };
            self.counters.rejects_sent += 1;
            return self.build(frame, route.to, route.framing, &header, &[]);
        }
        None
    }
}
