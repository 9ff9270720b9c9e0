//! Quiet peers, and how often each was asked whether it is still there.

use std::collections::BTreeMap;

use am_wire::Flow;
use am_wire::control::{Incarnation, NodeId};

use crate::time::Time;
use crate::timers::Armed;

/// A peer with open flows, none of which was heard on for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// When it was last heard, on whichever flow.
    pub(crate) heard: Time,
    /// On this one, or another that is as good.
    pub(crate) flow: Flow,
    /// In so many rounds it was asked since.
    pub(crate) asked: u32,
}

pub(crate) type Run = (NodeId, Incarnation);

/// The rounds of questions.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    pub(crate) armed: Armed,
    /// Peers that were asked in the last round.
    pub(crate) quiet: BTreeMap<Run, Quiet>,
}
