//! Notices that wait to be sent to peers. A peer is notified of each of its transfers, however many end before it receives
//! notices; a peer that does not receive them is slowed down. While many notices wait for a peer, the credit of the message
//! that ended its transfer stays here, and returns with one of the notices. So there are never more notices than credits
//! granted, and no peer's notices cost another peer anything.

use std::collections::{HashMap, VecDeque};

use am_proto::FlowId;
use am_wire::bulk::{Notice, NoticeKind};

/// The most notices that wait for a peer before its credit is held. Two peers that put small pieces to each other must
/// not wait for each other's credit.
const MAX_WITHOUT_HOLDING: usize = 64;

/// The most attempts in one turn: notices for peers without room delay others only so long.
pub(super) const MAX_TRIES: usize = 64;

/// See the module. Each turn looks at the first field.
#[derive(Default)]
#[repr(C)]
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

    /// It was sent, or its peer is gone; returns whether a held credit is to be returned with it.
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

    /// A message of this peer caused a notice; returns whether its credit is held.
    pub(super) fn holds(&mut self, flow: FlowId) -> bool {
        let Some(of) = self.of.get_mut(&flow).filter(|of| of.notices > MAX_WITHOUT_HOLDING) else { return false };
        of.held += 1;
        true
    }

    /// Whether such a notice waits for this peer.
    pub(super) fn has(&self, flow: FlowId, what: NoticeKind) -> bool {
        self.of.contains_key(&flow) && self.waiting.iter().any(|(to, notice)| *to == flow && notice.what == what)
    }
}
