//! Received frames: their senders, and the senders' addresses for the protocol.

use am_ring::Frame;
use am_transport::Caps;
use am_wire::control::Beacon;
use am_wire::{Address, Buffer, EtherType};

use crate::peers::{Peers, Usable};
use crate::readdress::{self, Change, Sort, sort, source};

/// The state of all paths together.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The caps that the protocol sees.
    pub(crate) caps: Caps,
    pub(crate) ethertype: EtherType,
    pub(crate) peers: Peers,
    /// The number of calls of `receive`.
    pub(crate) turn: u64,
    /// The paths that can be used in this turn.
    pub(crate) usable: Usable,
    /// Frames that were handed over with rewritten addresses.
    pub(crate) readdressed: u64,
    pub(crate) lost_no_memory: u64,
}

impl Arrivals {
    /// A frame has arrived on a path. Returns it with the addresses that the protocol knows; `None` if it is dropped.
    #[inline]
    pub(crate) fn arrived(&mut self, way: usize, frame: Frame) -> Option<Frame> {
        let sort = sort(frame.bytes(), self.ethertype);
        let link = source(frame.bytes());
        let above = match &sort {
            // A message is identified by its flow.
            Sort::Hidden | Sort::Probe => return Some(frame),
            Sort::Plain => link.and_then(|link| self.peers.heard(way, link, self.turn, self.usable)),
            Sort::Setup => link.and_then(|link| self.peers.asked(way, link, self.turn)),
            // A beacon is accepted only from the address that it names.
            Sort::Beacon(beacon) if link == Some(beacon.address) => Some(self.peers.hear(way, beacon)),
            Sort::Beacon(_) => None,
        };
        match above.filter(|above| Some(*above) != link) {
            None => Some(frame),
            Some(above) => self.from(above, &frame, sort.beacon()),
        }
    }

    /// A copy of the frame with this source address.
    fn from(&mut self, above: Address, frame: &Frame, beacon: Option<&Beacon>) -> Option<Frame> {
        let change = Change { to: None, from: Some(above) };
        let copy = readdress::copy(&self.caps.pool, frame, change, beacon, self.ethertype);
        self.readdressed += 1;
        self.lost_no_memory += copy.is_none() as u64;
        copy
    }
}
