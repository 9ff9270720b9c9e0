//! The queue of control frames to send.
//!
//! Pushed by: discovery, probing, set-up. Popped by: `transmit_control`, when outputs are drained. Bounded by:
//! [`MAX_CONTROL_FRAMES`]. When full: the newest is dropped. Every control frame is repeated until it is answered, so the drop costs
//! only time.

use std::collections::VecDeque;

use am_wire::control::{Beacon, Control, Purpose};
use am_wire::{Address, Flow, Framing, Reject, Seq};

use crate::FlowId;
use crate::output::Transmit;

const MAX_CONTROL_FRAMES: usize = 1024;

/// A control frame to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingControl {
    pub(crate) to: Address,
    /// `Plain`, except for the probe with a forged source address.
    pub(crate) framing: Framing,
    pub(crate) body: Control,
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

/// A reject to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingReject {
    pub(crate) flow: FlowId,
    pub(crate) seq: Seq,
    pub(crate) what: Reject,
}

#[derive(Debug)]
pub(crate) enum Outgoing<B> {
    Control(OutgoingControl),
    /// A finished frame that the transport did not take. It leaves first. It may be any frame except one with a single
    /// message.
    NotTaken(Transmit<B>),
}

#[derive(Debug)]
pub(crate) struct ControlQueue<B>(pub(crate) VecDeque<Outgoing<B>>);

impl<B> ControlQueue<B> {
    pub(crate) fn push(&mut self, to: Address, body: Control) {
        self.push_padded(to, Framing::Plain, body, 0);
    }

    pub(crate) fn push_padded(&mut self, to: Address, framing: Framing, body: Control, min_length: usize) {
        if self.0.len() < MAX_CONTROL_FRAMES {
            self.0.push_back(Outgoing::Control(OutgoingControl { to, framing, body, min_length }));
        }
    }

    /// Whether a beacon for this address is queued. Many flows with one silent peer ask for one at the same time.
    pub(crate) fn has_beacon_to(&self, to: Address) -> bool {
        self.beacons_to(to).next().is_some()
    }

    /// Whether enough broadcast beacons are queued: two, since one may be lost. Many flows ask for their peers at the
    /// same time, and where nothing carries broadcasts, each beacon is one frame to each known address.
    pub(crate) fn has_enough_broadcasts(&self) -> bool {
        self.beacons_to(Address::BROADCAST).filter(|beacon| beacon.purpose == Purpose::Ask).nth(1).is_some()
    }

    fn beacons_to(&self, to: Address) -> impl Iterator<Item = &Beacon> {
        self.0.iter().filter_map(move |outgoing| match outgoing {
            Outgoing::Control(OutgoingControl { to: there, body: Control::Beacon(beacon), .. }) if *there == to => {
                Some(beacon)
            }
            _ => None,
        })
    }
}
