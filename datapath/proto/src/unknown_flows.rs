//! Unknown flows: frames on flows that are not open here. Their sender missed
//! that the flow was closed, and would send again and again until its patience
//! ends. So we notify it, and its messages fail with a reason instead of a time-out.
//!
//! ```text
//!   a flow that this run had                  ──▶ Closed, to the peer that had it, and what had arrived
//!   any other: of an earlier run of this node ──▶ Beacon: the peer sees a new incarnation
//! ```
//!
//! The notification is a control frame, which is on no flow: there are no answers
//! to answers. One such frame brings about one answer at most, and in five milliseconds there
//! is one; beacons, which every node receives, are [rarer](crate::sparing) where there are many nodes. A forged frame closes nothing: the
//! notification goes to the peer of the closed flow, with the nonce of its half; the beacon says what is true.

use std::collections::{HashMap, VecDeque};

use am_wire::control::{Closed, Control, FinalAcks};
use am_wire::{Address, Flow};

use crate::FlowId;
use crate::flow::{FlowRecord, Route};
use crate::sparing::Sparing;
use crate::time::Time;

/// So many set-ups are remembered that nobody waited for until they were answered.
const UNANSWERED: usize = 1024;

/// A flow of ours that is over, and how its peer is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Farewell {
    nonce: u16,
    pub(crate) to: Address,
    pub(crate) closed: Closed,
}

#[derive(Debug, Default)]
pub(crate) struct UnknownFlows {
    /// Of each flow id the last use that is over.
    farewells: HashMap<Flow, Farewell>,
    /// Set-ups of ours that ended before they were answered, the last ones.
    unanswered: VecDeque<u32>,
    /// No answer before.
    pub(crate) next: Time,
    pub(crate) everybody: Sparing,
}

impl UnknownFlows {
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
    pub(crate) fn farewell(&self, flow: Flow, nonce: Option<u16>) -> Option<Farewell> {
        self.farewells.get(&flow).copied().filter(|said| nonce.is_none_or(|nonce| said.nonce == nonce))
    }
}
