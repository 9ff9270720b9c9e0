//! Strays: frames on flows that are not open here. Their sender has not heard
//! that the flow is over, and would send again and again until its patience
//! ends. So it is told, which makes of a silence a reason.
//!
//! ```text
//!   a flow that this run said farewell to     ──▶ Close, once more, to the peer that had it
//!   any other: of an earlier run of this node ──▶ Beacon: the peer sees a new incarnation
//! ```
//!
//! What is told is a control frame, which is never a stray: there are no answers
//! to answers. One stray brings about one answer at most, and in [`PAUSE`] there
//! is one; beacons, which everybody hears, are [rarer](crate::sparing) where many do. A forged stray ends nothing: the farewell goes to the peer of the flow
//! that is over, with the nonce of its half; the beacon says what is true.

use core::time::Duration;
use std::collections::VecDeque;

use wire::control::{Close, Control};
use wire::{Address, Buffer, Flow, Framing, Header, Reason};

use crate::FlowId;
use crate::flow::Phase;
use crate::node::Core;
use crate::sparing::Sparing;
use crate::time::Time;

/// Between two answers to strays, whoever sent them.
const PAUSE: Duration = Duration::from_millis(5);

/// Farewells that are remembered, the last ones.
const MOST: usize = 1024;

/// A flow of ours that is over, and how its peer is told.
#[derive(Clone, Copy, Debug)]
struct Farewell {
    id: FlowId,
    to: Address,
    close: Close,
}

#[derive(Debug, Default)]
pub(crate) struct Strays {
    farewells: VecDeque<Farewell>,
    /// No answer before.
    next: Time,
    everybody: Sparing,
}

impl Strays {
    /// This flow is over, and its peer was told so.
    pub(crate) fn remember(&mut self, id: FlowId, to: Address, close: Close) {
        if self.farewells.len() == MOST {
            self.farewells.pop_front();
        }
        self.farewells.push_back(Farewell { id, to, close });
    }

    /// The last farewell to a flow of this id and, where it is known, nonce.
    fn farewell(&self, flow: Flow, nonce: Option<u16>) -> Option<Farewell> {
        let is_it = |said: &&Farewell| said.id.flow == flow && nonce.is_none_or(|nonce| said.id.nonce == nonce);
        self.farewells.iter().rev().find(is_it).copied()
    }
}

impl<B: Buffer> Core<B> {
    /// From below: a frame came on a flow that is not open here, and steering
    /// kept it; several count as one.
    #[cold]
    pub fn on_stray(&mut self, flow: Flow) {
        self.stray(flow, None);
    }

    /// A frame that is not taken.
    #[cold]
    pub(crate) fn refused(&mut self, reason: Reason, header: &Header, framing: Framing) {
        self.counters.drop(reason);
        if matches!(reason, Reason::NoFlow | Reason::Nonce) {
            self.stray(header.flow, (framing != Framing::Bare).then_some(header.nonce));
        }
    }

    fn stray(&mut self, flow: Flow, nonce: Option<u16>) {
        let record = self.flows.by_flow(flow).filter(|record| matches!(record.phase, Phase::Asking | Phase::Open));
        let is_none = record.is_none_or(|record| nonce.is_some_and(|nonce| nonce != record.id.nonce));
        if flow == Flow::NODE || !is_none || self.now < self.strays.next {
            return;
        }
        match self.strays.farewell(flow, nonce) {
            Some(Farewell { to, close, .. }) => self.control.push(to, Control::Close(close)),
            None if self.strays.everybody.is_time(self.now, self.peers.count()) => self.announce(false),
            None => return,
        }
        self.strays.next = self.now + PAUSE;
        self.counters.strays_answered += 1;
    }
}
