//! What peers are to be told of transfers. Each of their transfers is told of, in the end, however many are over
//! before the peer takes the news: a peer that does not is slowed down instead. The credit of what
//! completed a transfer stays here while many notices wait for its sender; it goes home with one of them. So there are
//! never more of them than credits were granted, and nobody's notices cost another peer anything.

use std::collections::{HashMap, VecDeque};

use am_proto::FlowId;
use am_wire::bulk::{Notice, What};

/// With so many notices waiting for a peer, no credit is kept. Two peers that put small pieces to
/// each other must not wait for each other's credit.
const FEW: usize = 64;

/// Attempts a turn: those whose peers have no room stay in the way of others only so long.
pub(super) const TRIES: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Notices {
    waiting: VecDeque<(FlowId, Notice)>,
    of: HashMap<FlowId, Of>,
}

/// One peer's.
#[derive(Default)]
struct Of {
    notices: usize,
    /// Credits that were not returned yet.
    held: usize,
}

impl Notices {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, flow: FlowId, notice: Notice) {
        self.of.entry(flow).or_default().notices += 1;
        self.waiting.push_back((flow, notice));
    }

    pub(super) fn pop(&mut self) -> Option<(FlowId, Notice)> {
        self.waiting.pop_front()
    }

    /// It could not be sent now: others are tried before it comes again.
    pub(super) fn put_back(&mut self, flow: FlowId, notice: Notice) {
        self.waiting.push_back((flow, notice));
    }

    /// It was sent, or nobody is there any more; whether a credit goes home with it.
    pub(super) fn sent(&mut self, flow: FlowId) -> bool {
        let Some(of) = self.of.get_mut(&flow) else { return false };
        of.notices = of.notices.saturating_sub(1);
        let returns = of.held > 0;
        of.held = of.held.saturating_sub(1);
        if of.notices == 0 {
            self.of.remove(&flow);
        }
        returns
    }

    /// Something of this peer was taken in, and is to be told of: whether its credit stays here.
    pub(super) fn holds(&mut self, flow: FlowId) -> bool {
        let Some(of) = self.of.get_mut(&flow).filter(|of| of.notices > FEW) else { return false };
        of.held += 1;
        true
    }

    /// Whether this waits to be told.
    pub(super) fn has(&self, flow: FlowId, what: What) -> bool {
        self.of.contains_key(&flow) && self.waiting.iter().any(|(to, notice)| *to == flow && notice.what == what)
    }
}
