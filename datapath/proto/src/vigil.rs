//! Whether the other half of a quiet flow is still there. A farewell may be
//! lost, as may the news that a peer was started again; and what waits for
//! nothing of its own to be acknowledged would then wait for ever. So who has
//! not heard a peer for long asks it; who knows nothing of the flow says so.
//!
//! Silence is no answer: a peer that is stopped for a while, and owes us no
//! acknowledgement, keeps its flows.

use wire::control::{Accept, Close, Control, Still};
use wire::{Address, Buffer};

use crate::flow::{FlowRecord, Phase};
use crate::node::Core;
use crate::time::Time;

/// Questions that leave with one beacon. A node with more quiet flows takes
/// several beacons to ask about all.
const MOST: usize = 512;

impl<B: Buffer> Core<B> {
    /// With each beacon: ask, where nothing was heard since the last one.
    pub(crate) fn look_after_quiet(&mut self, now: Time) {
        let Core { flows, control, config, .. } = self;
        let is_quiet = |record: &&FlowRecord| record.phase == Phase::Open && !record.is_heard(now, config.beacon);
        let mut quiet = flows.around().filter(is_quiet);
        quiet.by_ref().take(MOST).for_each(|record| control.push(record.route.to, record.question()));
        let next = quiet.next().map(|record| record.id.flow);
        drop(quiet);
        flows.turn_to(next);
    }

    /// A peer asks: who has no such flow says so; who has it says what has arrived, and what may be sent.
    #[cold]
    pub(crate) fn on_still(&mut self, source: Address, still: &Still) {
        let is_it = |record: &&mut FlowRecord| {
            let route = &record.route;
            record.id.nonce == still.nonce
                && record.phase == Phase::Open
                && (route.to, route.flow, route.nonce) == (source, still.own, still.own_nonce)
        };
        match self.flows.by_flow(still.flow).filter(is_it) {
            Some(record) => {
                record.touch(&mut self.touched);
                record.ack_forced = true;
                record.queue_ack(&mut self.acks_due);
            }
            None => self.control.push(source, Control::Close(Close { flow: still.own, nonce: still.own_nonce })),
        }
    }
}

impl FlowRecord {
    /// What to ask about a flow. One that was accepted and never used is
    /// accepted once more: who asked for it may wait for that still, and is
    /// content with it otherwise.
    pub(crate) fn question(&self) -> Control {
        let (route, id) = (self.route, self.id);
        if !self.setup.ours && !self.silence.has_begun() {
            return Control::Accept(Accept { id: self.setup.id, offer: self.offer(route.max_frame()) });
        }
        Control::Still(Still { flow: route.flow, nonce: route.nonce, own: id.flow, own_nonce: id.nonce })
    }
}
