//! Notices that wait to be sent to peers. A peer gets a notice for the end of each of its transfers. A peer that does not
//! receive its notices is slowed down: while many wait for it, the credit of each message that causes another notice is
//! withheld, and released when a notice is sent. So no more notices wait than credits were granted, and one peer's notices do
//! not delay those of others.

use std::collections::{HashMap, VecDeque};

use am_proto::FlowId;
use am_wire::Class;
use am_wire::bulk::{Notice, NoticeKind};

/// The most notices that wait for a peer before its credit is withheld. With 0, two peers that put small pieces to each other
/// could wait for each other's credit for ever.
const MAX_WITHOUT_HOLDING: usize = 64;

/// The most attempts in one turn. This bounds how long notices for peers without room delay others.
pub(super) const MAX_TRIES: usize = 64;

/// The notices for all peers. Each turn reads the first field.
#[derive(Default)]
#[repr(C)]
pub(super) struct Notices {
    waiting: VecDeque<(FlowId, Notice)>,
    of: HashMap<FlowId, Of>,
}

/// The state of one peer.
#[derive(Default)]
struct Of {
    notices: usize,
    /// Credits of the peer that are withheld, for requests and for replies.
    withheld: [u16; 2],
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

    /// A notice could not be sent now: it goes behind the others.
    pub(super) fn requeue(&mut self, flow: FlowId, notice: Notice) {
        self.waiting.push_back((flow, notice));
    }

    /// A notice was sent, or its peer is gone. Returns the withheld credits of each class that the caller has to release: all of
    /// them with the last notice, because a message whose notice is still to come may have one.
    pub(super) fn sent(&mut self, flow: FlowId) -> [u16; 2] {
        let Some(of) = self.of.get_mut(&flow) else { return [0; 2] };
        of.notices = of.notices.saturating_sub(1);
        if of.notices == 0 {
            return self.of.remove(&flow).map_or([0; 2], |of| of.withheld);
        }
        let mut one = [0; 2];
        if let Some(class) = of.withheld.iter().position(|&withheld| withheld > 0) {
            (of.withheld[class], one[class]) = (of.withheld[class] - 1, 1);
        }
        one
    }

    /// Whether this peer's credit is withheld, because too many notices wait for it.
    pub(super) fn holds(&self, flow: FlowId) -> bool {
        self.of(flow) > MAX_WITHOUT_HOLDING
    }

    /// A message of this peer caused a notice, or will. Returns whether to withhold its credit.
    pub(super) fn withholds(&mut self, flow: FlowId, class: Class) -> bool {
        let Some(of) = self.of.get_mut(&flow).filter(|of| of.notices > MAX_WITHOUT_HOLDING) else { return false };
        of.withheld[class.index()] += 1;
        true
    }

    /// How many notices wait for this peer.
    pub(super) fn of(&self, flow: FlowId) -> usize {
        self.of.get(&flow).map_or(0, |of| of.notices)
    }

    /// Whether a notice of this kind waits for this peer.
    pub(super) fn has(&self, flow: FlowId, what: NoticeKind) -> bool {
        self.of.contains_key(&flow) && self.waiting.iter().any(|(to, notice)| *to == flow && notice.what == what)
    }
}
