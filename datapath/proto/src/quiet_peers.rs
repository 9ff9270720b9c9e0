//! The quiet peers, and how often each was asked for a sign of life.

use std::collections::BTreeMap;

use am_wire::Flow;
use am_wire::control::{Incarnation, NodeId};

use crate::time::Time;
use crate::timers::TimerState;

/// A peer with open flows, on none of which anything arrived for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietPeer {
    /// When its last frame arrived, on any flow.
    pub(crate) last_received: Time,
    /// One of its open flows, to ask about.
    pub(crate) flow: Flow,
    /// Rounds in which it was asked since.
    pub(crate) rounds_asked: u32,
}

pub(crate) type PeerRun = (NodeId, Incarnation);

/// The keepalive rounds.
#[derive(Debug, Default)]
pub(crate) struct QuietPeers {
    pub(crate) timer: TimerState,
    /// The peers that were asked in the last round.
    pub(crate) peers: BTreeMap<PeerRun, QuietPeer>,
}
