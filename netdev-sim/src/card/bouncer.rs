//! The bounce of the XDP program (`bpf/bounce.h`): while the node has no room, a request goes back to its sender before
//! the host sees it.

use std::collections::BTreeMap;

use am_transport::Command;
use am_wire::bounce::RejectTemplate;
use am_wire::frame::MIN_FRAME;
use am_wire::steer::{Decision, SteeringTable, steer};
use am_wire::{Address, EtherType, Flow};

/// The program's tables. [`am_wire::steer`] decides, as in user space.
#[derive(Debug)]
pub(super) struct Bouncer {
    /// On the heap, because it has a byte for each of the 16,384 flow ids.
    table: Box<SteeringTable>,
    backs: BTreeMap<Flow, RejectTemplate>,
}

impl Bouncer {
    pub(super) fn new(own: Address) -> Bouncer {
        Bouncer { table: Box::new(SteeringTable::new(EtherType::DEFAULT, own)), backs: BTreeMap::new() }
    }

    pub(super) fn control(&mut self, command: Command<'_>) {
        match command {
            Command::Steer { flow, open } => {
                self.table.flows[flow.index()] = open as u8;
                if !open {
                    self.backs.remove(&flow);
                    self.table.ways_back[flow.index() / 64] &= !(1 << (flow.index() % 64));
                }
            }
            Command::RejectTemplate { flow, template } => {
                self.backs.insert(flow, *template);
                self.table.ways_back[flow.index() / 64] |= 1 << (flow.index() % 64);
            }
            Command::RxFull(is_full) => self.table.full = is_full,
            _ => (),
        }
    }

    /// The reject of a request, if the request is to be bounced.
    pub(super) fn reject(&self, request: &[u8]) -> Option<[u8; MIN_FRAME]> {
        if !self.table.full || !matches!(steer(request, &self.table), Decision::Bounce(_)) {
            return None;
        }
        // A reject template belongs to one flow.
        let flow = am_wire::frame::parse(request, EtherType::DEFAULT).ok()?.header.flow;
        self.backs.get(&flow)?.reject(request.first_chunk::<MIN_FRAME>()?, EtherType::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use am_wire::frame::{LinkAddresses, emit};
    use am_wire::{Framing, Header, Kind};

    use super::*;

    #[test]
    fn requests_of_every_length_are_returned() {
        let (own, peer, flow) = (Address([2, 0, 0, 0, 0, 1]), Address([2, 0, 0, 0, 0, 2]), Flow::new(7).unwrap());
        let link = |from, to| LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
        let mut bouncer = Bouncer::new(own);
        bouncer.control(Command::Steer { flow, open: true });
        let template = &RejectTemplate::new(Framing::Bare, &link(own, peer), flow, 0);
        bouncer.control(Command::RejectTemplate { flow, template });
        bouncer.control(Command::RxFull(true));
        for body in [0, 44, 46, 100, 1500] {
            let mut bytes = [0; 1514];
            let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 0, words: 0, seq: 9 };
            let length = emit(&mut bytes, Framing::Bare, &link(peer, own), &header, body, None).unwrap();
            assert!(bouncer.reject(&bytes[..length]).is_some(), "{body} bytes");
        }
    }
}
