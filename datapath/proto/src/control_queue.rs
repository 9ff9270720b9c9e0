//! The queue of control frames to send.
//!
//! Pushed by: discovery, probing, set-up. Popped by: `transmit_control`, when outputs are drained. Bounded by:
//! [`MAX_CONTROL_FRAMES`]. When full: the newest is dropped. Every control frame is repeated until it is answered, so the drop costs
//! only time.

use std::collections::VecDeque;

use am_wire::control::Control;
use am_wire::{Address, Flow, Framing};

use crate::output::Transmit;

const MAX_CONTROL_FRAMES: usize = 1024;

/// A control frame to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingControl {
    pub(crate) to: Address,
    /// `Plain`, except for the probe with a forged source address.
    pub(crate) framing: Framing,
    pub(crate) body: Control,
    /// The frame is padded to this length.
    pub(crate) min_length: usize,
}

/// A control frame that leaves after messages and acknowledgements. There may be as many as there are flows, so its
/// content is looked up when it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeferredControl {
    /// Close a flow that was closed here.
    Close(Flow),
    /// Tell the peer that a flow has ended.
    Closed(Flow),
    /// Ask the peer whether a flow is still open.
    Keepalive(Flow),
}

#[derive(Debug)]
pub(crate) struct ControlQueue<B> {
    waiting: VecDeque<OutgoingControl>,
    /// A finished frame that the transport did not take. It leaves first. It may be any frame except one with a single
    /// message.
    refused: Option<Transmit<B>>,
    /// Whether the queue is empty. This is read once for each frame.
    is_empty: bool,
}

impl<B> ControlQueue<B> {
    pub(crate) fn new() -> Self {
        ControlQueue { waiting: VecDeque::new(), refused: None, is_empty: true }
    }

    pub(crate) fn push(&mut self, to: Address, body: Control) {
        self.push_padded(to, Framing::Plain, body, 0);
    }

    pub(crate) fn push_padded(&mut self, to: Address, framing: Framing, body: Control, padded: usize) {
        if self.waiting.len() < MAX_CONTROL_FRAMES {
            self.waiting.push_back(OutgoingControl { to, framing, body, min_length: padded });
            self.is_empty = false;
        }
    }

    /// Whether a beacon for this address is queued. Many flows with one silent peer ask for one at the same time.
    pub(crate) fn has_beacon_to(&self, to: Address) -> bool {
        self.waiting.iter().any(|outgoing| outgoing.to == to && matches!(outgoing.body, Control::Beacon(_)))
    }

    /// Whether enough broadcast beacons are queued: two, since one may be lost. Many flows ask for their peers at the
    /// same time, and where nothing carries broadcasts, each beacon is one frame to each known address.
    pub(crate) fn has_enough_broadcasts(&self) -> bool {
        let does = |outgoing: &&OutgoingControl| {
            outgoing.to == Address::BROADCAST && matches!(outgoing.body, Control::Beacon(beacon) if beacon.answer)
        };
        self.waiting.iter().filter(does).nth(1).is_some()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn pop(&mut self) -> Option<OutgoingControl> {
        let next = self.waiting.pop_front();
        self.is_empty = self.waiting.is_empty();
        next
    }

    pub(crate) fn push_front(&mut self, outgoing: OutgoingControl) {
        self.waiting.push_front(outgoing);
        self.is_empty = false;
    }

    pub(crate) fn refused(&mut self, transmit: Transmit<B>) {
        self.refused = Some(transmit);
        self.is_empty = false;
    }

    pub(crate) fn take_refused(&mut self) -> Option<Transmit<B>> {
        let refused = self.refused.take();
        self.is_empty = self.waiting.is_empty();
        refused
    }

    /// The frame that the transport did not take.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &B> {
        self.refused.iter().map(|transmit| &transmit.frame)
    }
}
