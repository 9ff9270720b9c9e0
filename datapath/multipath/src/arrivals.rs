//! Received frames: their senders, and the senders' addresses for the protocol.

use am_ring::Frame;
use am_transport::Caps;
use am_wire::control::Beacon;
use am_wire::{Address, Buffer, EtherType};

use crate::peers::{Peers, UsablePaths};
use crate::rewrite::{self, AddressChange, FrameClass, classify, source};

/// The state of all paths together.
#[derive(Debug)]
pub(crate) struct FrameReceiver {
    /// The caps that the protocol sees.
    pub(crate) caps: Caps,
    pub(crate) ethertype: EtherType,
    pub(crate) peers: Peers,
    /// The number of calls of `receive`.
    pub(crate) turn: u64,
    /// The paths that can be used in this turn.
    pub(crate) usable: UsablePaths,
    /// Frames that were handed over with rewritten addresses.
    pub(crate) rewritten: u64,
    pub(crate) lost_no_memory: u64,
}

impl FrameReceiver {
    /// A frame has arrived on a path. Returns it with the addresses that the protocol knows; `None` if it is dropped.
    #[inline]
    pub(crate) fn on_frame(&mut self, way: usize, frame: Frame) -> Option<Frame> {
        let sort = classify(frame.bytes(), self.ethertype);
        let link = source(frame.bytes());
        let above = match &sort {
            // A message is identified by its flow.
            FrameClass::HeaderInSource | FrameClass::Probe => return Some(frame),
            FrameClass::Plain => link.and_then(|link| self.peers.on_frame(way, link, self.turn, self.usable)),
            FrameClass::Setup => link.and_then(|link| self.peers.on_setup(way, link, self.turn)),
            // A beacon is accepted only from the address that it names.
            FrameClass::Beacon(beacon) if link == Some(beacon.address) => Some(self.peers.on_beacon(way, beacon)),
            FrameClass::Beacon(_) => None,
        };
        match above.filter(|above| Some(*above) != link) {
            None => Some(frame),
            Some(above) => self.copy_from(above, &frame, sort.beacon()),
        }
    }

    /// A copy of the frame with this source address.
    fn copy_from(&mut self, above: Address, frame: &Frame, beacon: Option<&Beacon>) -> Option<Frame> {
        let change = AddressChange { to: None, from: Some(above) };
        let copy = rewrite::copy(&self.caps.pool, frame, change, beacon, self.ethertype);
        self.rewritten += 1;
        self.lost_no_memory += copy.is_none() as u64;
        copy
    }
}
