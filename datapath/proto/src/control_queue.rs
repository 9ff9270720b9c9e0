//! The queue of control frames to send.
//!
//! Pushed by: discovery, probing, set-up. Popped by: `transmit_control`, when outputs are drained. Bounded by:
//! [`MOST`]. When full: the newest is dropped. Every control frame is repeated until it is answered, so the drop costs
//! only time.

use std::collections::VecDeque;

use am_wire::control::Control;
use am_wire::{Address, Flow, Framing};

const MOST: usize = 1024;

/// A control frame to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: Address,
    /// `Plain`, except for the probe with a forged source address.
    pub(crate) framing: Framing,
    pub(crate) body: Control,
    /// The frame is padded to this length.
    pub(crate) padded: usize,
}

/// A control frame that leaves after messages and acknowledgements. There may be as many as there are flows, so its
/// content is looked up when it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Later {
    /// Close a flow that was closed here.
    Close(Flow),
    /// Tell the peer that a flow has ended.
    Closed(Flow),
    /// Ask the peer whether a flow is still open.
    Question(Flow),
}

#[derive(Debug, Default)]
pub(crate) struct ControlQueue(VecDeque<Outgoing>);

impl ControlQueue {
    pub(crate) fn push(&mut self, to: Address, body: Control) {
        self.push_padded(to, Framing::Plain, body, 0);
    }

    pub(crate) fn push_padded(&mut self, to: Address, framing: Framing, body: Control, padded: usize) {
        if self.0.len() < MOST {
            self.0.push_back(Outgoing { to, framing, body, padded });
        }
    }

    /// Whether a beacon for this address is queued. Many flows with one silent peer ask for one at the same time.
    pub(crate) fn introduces_to(&self, to: Address) -> bool {
        self.0.iter().any(|outgoing| outgoing.to == to && matches!(outgoing.body, Control::Beacon(_)))
    }

    /// Whether enough broadcast beacons are queued: two, since one may be lost. Many flows ask for their peers at the
    /// same time, and where nothing carries broadcasts, each beacon is one frame to each known address.
    pub(crate) fn announces(&self) -> bool {
        let does = |outgoing: &&Outgoing| {
            outgoing.to == Address::BROADCAST && matches!(outgoing.body, Control::Beacon(beacon) if beacon.answer)
        };
        self.0.iter().filter(does).nth(1).is_some()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        self.0.pop_front()
    }

    pub(crate) fn unpop(&mut self, outgoing: Outgoing) {
        self.0.push_front(outgoing);
    }
}
