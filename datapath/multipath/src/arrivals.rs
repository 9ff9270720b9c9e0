//! What has arrived: by whom, and what those above call them.

use am_ring::Frame;
use am_transport::Caps;
use am_wire::control::Beacon;
use am_wire::{Address, Buffer, EtherType};

use crate::peers::{Peers, Usable};
use crate::readdress::{self, Change, Sort, sort, source};

/// What is known of the network, whichever way it was learned on.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// As those above see this transport.
    pub(crate) caps: Caps,
    pub(crate) ethertype: EtherType,
    pub(crate) peers: Peers,
    /// Calls of `receive`.
    pub(crate) turn: u64,
    /// Ways that can be taken in this one.
    pub(crate) usable: Usable,
    /// Frames that got other addresses.
    pub(crate) readdressed: u64,
    pub(crate) lost_no_memory: u64,
}

impl Arrivals {
    /// A frame that has arrived on a way, with the addresses that those above know.
    #[inline]
    pub(crate) fn arrived(&mut self, way: usize, frame: Frame) -> Option<Frame> {
        let sort = sort(frame.bytes(), self.ethertype);
        let link = source(frame.bytes());
        let above = match &sort {
            // The messages of a conversation are known by its flow.
            Sort::Hidden | Sort::Probe => return Some(frame),
            Sort::Plain => link.and_then(|link| self.peers.heard(way, link, self.turn, self.usable)),
            Sort::Setup => link.and_then(|link| self.peers.asked(way, link, self.turn)),
            // Believed where it comes from the address that it names.
            Sort::Beacon(beacon) if link == Some(beacon.address) => Some(self.peers.hear(way, beacon)),
            Sort::Beacon(_) => None,
        };
        match above.filter(|above| Some(*above) != link) {
            None => Some(frame),
            Some(above) => self.from(above, &frame, sort.beacon()),
        }
    }

    /// The same frame, from this address.
    fn from(&mut self, above: Address, frame: &Frame, beacon: Option<&Beacon>) -> Option<Frame> {
        let change = Change { to: None, from: Some(above) };
        let copy = readdress::copy(&self.caps.pool, frame, change, beacon, self.ethertype);
        self.readdressed += 1;
        self.lost_no_memory += copy.is_none() as u64;
        copy
    }
}
