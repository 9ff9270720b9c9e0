//! Strays: frames on flows that are not open here. Their sender has not heard
//! that the flow is over, and would send again and again until its patience
//! ends. So it is told, which makes of a silence a reason.
//!
//! ```text
//!   a flow that this run had                  ──▶ Closed, to the peer that had it, and what had arrived
//!   any other: of an earlier run of this node ──▶ Beacon: the peer sees a new incarnation
//! ```
//!
//! What is told is a control frame, which is never a stray: there are no answers
//! to answers. One stray brings about one answer at most, and in [`PAUSE`] there
//! is one; beacons, which everybody hears, are [rarer](crate::sparing) where many do. A forged stray ends nothing: the farewell goes to the peer of the flow
//! that is over, with the nonce of its half; the beacon says what is true.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use wire::control::{Closed, Control, FinalAcks};
use wire::{Address, Buffer, Flow, Framing, Header, Reason};

use crate::FlowId;
use crate::flow::{FlowRecord, Phase, Route};
use crate::node::Core;
use crate::sparing::Sparing;
use crate::time::Time;

/// Between two answers to strays, whoever sent them.
const PAUSE: Duration = Duration::from_millis(5);

/// So many set-ups are remembered that nobody waited for until they were answered.
const UNANSWERED: usize = 1024;

/// A flow of ours that is over, and how its peer is told.
#[derive(Clone, Copy, Debug)]
struct Farewell {
    nonce: u16,
    to: Address,
    closed: Closed,
}

#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Of each flow id the last use that is over.
    farewells: HashMap<Flow, Farewell>,
    /// Set-ups of ours that ended before they were answered, the last ones.
    unanswered: VecDeque<u32>,
    /// No answer before.
    next: Time,
    everybody: Sparing,
}

impl Strays {
    /// This flow is over, and this is what has arrived on it.
    pub(crate) fn remember(&mut self, record: &FlowRecord, acks: FinalAcks) {
        let Route { to, flow, nonce, .. } = record.route;
        let FlowId { flow: own, nonce: own_nonce } = record.id;
        let closed = Closed { flow, nonce, own: Some((own, own_nonce)), acks: Some(acks) };
        self.farewells.insert(own, Farewell { nonce: own_nonce, to, closed });
    }

    /// This set-up ended before it was answered.
    pub(crate) fn remember_unanswered(&mut self, attempt: u32) {
        if self.unanswered.len() == UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(attempt);
    }

    /// Whether nothing was ever received on the flow of this set-up.
    pub(crate) fn is_unanswered(&self, attempt: u32) -> bool {
        self.unanswered.contains(&attempt)
    }

    /// What had arrived on a flow that is over.
    pub(crate) fn acks(&self, id: FlowId) -> Option<FinalAcks> {
        self.farewell(id.flow, Some(id.nonce))?.closed.acks
    }

    /// What the peer at this address, whose half has this id and nonce, was told when the last flow of ours with this id ended.
    pub(crate) fn to_peer(&self, ours: Flow, to: Address, half: (Flow, u16)) -> Option<Closed> {
        let said = self.farewell(ours, None)?;
        (said.to == to && (said.closed.flow, said.closed.nonce) == half).then_some(said.closed)
    }

    /// What the peer of the last flow of this id is told.
    pub(crate) fn closed(&self, flow: Flow) -> Option<(Address, Control)> {
        self.farewell(flow, None).map(|said| (said.to, Control::Closed(said.closed)))
    }

    /// The farewell to a flow of this id and, where it is known, nonce.
    fn farewell(&self, flow: Flow, nonce: Option<u16>) -> Option<Farewell> {
        self.farewells.get(&flow).copied().filter(|said| nonce.is_none_or(|nonce| said.nonce == nonce))
    }
}

impl<B: Buffer> Core<B> {
    /// From below: a frame came on a flow that is not open here, and steering
    /// kept it; several count as one. On [`Flow::NODE`] it was for an earlier run of this node.
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
        if !is_none || self.now < self.strays.next {
            return;
        }
        match self.strays.farewell(flow, nonce) {
            Some(said) => self.control.push(said.to, Control::Closed(said.closed)),
            None if self.strays.everybody.is_time(self.now, self.peers.count()) => self.announce(false),
            None => return,
        }
        self.strays.next = self.now + PAUSE;
        self.counters.strays_answered += 1;
    }
}
