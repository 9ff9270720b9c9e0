//! Control frames waiting to be sent.
//!
//! Pushed by: discovery, probing, set-up. Popped by: `poll_transmit`. Bounded:
//! all of them are repeated until answered, so when too many wait, the newest
//! is not queued.

use std::collections::VecDeque;

use am_wire::control::Control;
use am_wire::{Address, Flow, Framing};

use crate::output::Transmit;

const MOST: usize = 1024;

/// A control frame to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: Address,
    /// `Plain`, but for the probe that tries a forged source.
    pub(crate) framing: Framing,
    pub(crate) body: Control,
    /// The frame has as many bytes at least.
    pub(crate) padded: usize,
}

/// A control frame that waits until messages and acknowledgements have left. There may be as many as there are flows: what it says
/// is looked up when it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Later {
    /// This flow was closed here.
    Close(Flow),
    /// This flow is over.
    Closed(Flow),
    /// Is this flow still there?
    Question(Flow),
}

#[derive(Debug)]
pub(crate) struct ControlQueue<B> {
    waiting: VecDeque<Outgoing>,
    /// A frame that was written, and for which there was no room: it goes first. It may carry anything but a single message.
    refused: Option<Transmit<B>>,
    /// Whether there is anything: looked at for each frame.
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
        if self.waiting.len() < MOST {
            self.waiting.push_back(Outgoing { to, framing, body, padded });
            self.is_empty = false;
        }
    }

    /// Whether a beacon for this address waits. (Many conversations with one peer miss it at once.)
    pub(crate) fn introduces_to(&self, to: Address) -> bool {
        self.waiting.iter().any(|outgoing| outgoing.to == to && matches!(outgoing.body, Control::Beacon(_)))
    }

    /// Whether so many beacons for everybody wait that another brings nothing: two, as one may be lost. (Many
    /// conversations miss their peers at once, and where nothing carries broadcasts each beacon is a frame to each
    /// place that is known.)
    pub(crate) fn announces(&self) -> bool {
        let does = |outgoing: &&Outgoing| {
            outgoing.to == Address::BROADCAST && matches!(outgoing.body, Control::Beacon(beacon) if beacon.answer)
        };
        self.waiting.iter().filter(does).nth(1).is_some()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        let next = self.waiting.pop_front();
        self.is_empty = self.waiting.is_empty();
        next
    }

    pub(crate) fn unpop(&mut self, outgoing: Outgoing) {
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

    /// The frame that was refused.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &B> {
        self.refused.iter().map(|transmit| &transmit.frame)
    }
}
