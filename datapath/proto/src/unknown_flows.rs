//! Frames on flows that are not open here. Their sender does not know that the flow ended, and would retransmit until
//! its patience ends. So this node notifies it, and its messages fail with a reason instead of a time-out.
//!
//! ```text
//!   a flow that this run had                  ──▶ Closed, to the flow's peer, with what had arrived
//!   any other: of an earlier run of this node ──▶ Beacon: the peer sees a new incarnation
//! ```
//!
//! The notice is a control frame, and control frames never get such an answer. One frame brings about one answer at
//! most, and there is one answer in five milliseconds. Beacons go to every node, so they are [rarer](crate::rate_limit)
//! with many nodes. A forged frame ends no flow: Closed goes to the peer of the ended flow, with that peer's own nonce,
//! and a beacon only says what is true.

use std::collections::{HashMap, VecDeque};

use am_wire::control::{CloseCause, Closed, FinalAcks};
use am_wire::{Address, Flow};

use crate::FlowId;
use crate::flow::{FlowRecord, Route};
use crate::rate_limit::BroadcastLimit;
use crate::time::Time;

const MAX_UNANSWERED: usize = 1024;

/// A closed flow, and the notice for its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedFlow {
    nonce: u16,
    pub(crate) to: Address,
    pub(crate) closed: Closed,
}

#[derive(Debug, Default)]
pub(crate) struct UnknownFlows {
    /// By flow id: the last use that ended.
    closed_flows: HashMap<Flow, ClosedFlow>,
    /// The latest set-ups of this node that ended before they were answered: nothing was ever received on their flows.
    pub(crate) unanswered: VecDeque<u32>,
    /// No answer before this time.
    pub(crate) next_answer_at: Time,
    pub(crate) broadcasts: BroadcastLimit,
}

impl UnknownFlows {
    pub(crate) fn remember(&mut self, record: &FlowRecord, acks: FinalAcks) {
        let Route { to, flow, nonce, .. } = record.route;
        let FlowId { flow: own, nonce: own_nonce } = record.id;
        let closed = Closed { flow, nonce, own: Some((own, own_nonce)), acks: Some(acks) };
        self.closed_flows.insert(own, ClosedFlow { nonce: own_nonce, to, closed });
    }

    /// The last closed flow with this id ended for this cause.
    pub(crate) fn set_cause(&mut self, flow: Flow, cause: CloseCause) {
        let acks = self.closed_flows.get_mut(&flow).and_then(|known| known.closed.acks.as_mut());
        acks.into_iter().for_each(|acks| acks.cause = cause);
    }

    pub(crate) fn remember_unanswered(&mut self, attempt: u32) {
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(attempt);
    }

    /// The notice for the last closed flow with this id, if its peer is at this address and its half has this id and
    /// nonce.
    pub(crate) fn notice_to_peer(&self, ours: Flow, to: Address, half: (Flow, u16)) -> Option<Closed> {
        let said = self.closed_flow(ours, None)?;
        (said.to == to && (said.closed.flow, said.closed.nonce) == half).then_some(said.closed)
    }

    /// The last closed flow with this id and, if given, this nonce.
    pub(crate) fn closed_flow(&self, flow: Flow, nonce: Option<u16>) -> Option<ClosedFlow> {
        self.closed_flows.get(&flow).copied().filter(|said| nonce.is_none_or(|nonce| said.nonce == nonce))
    }
}
