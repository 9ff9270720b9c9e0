//! A program that writes what it likes: it attaches by hand, and has a lane of its own to put bytes into.

use std::path::Path;

use am_ring::Frame;
use am_transport::Transport;
use am_vnic::{Vnic, VnicOptions};
use am_wire::control::{Beacon, Control, Incarnation, Name, NodeId};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Framings, Header, Kind};

/// Its end of the port, as any program has it: the lane takes any bytes.
pub struct Intruder {
    pub port: Vnic,
}

/// A header of a message.
pub fn header(kind: Kind, flow: Flow) -> Header {
    Header { kind, flow, nonce: 0, handler: 0, words: 0, seq: 7 }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Intruder {
    pub fn attach(socket: &Path) -> Intruder {
        Intruder { port: am_vnic::open(&VnicOptions::new(socket)).unwrap() }
    }

    pub fn address(&self) -> Address {
        self.port.caps().address
    }

    /// A well-formed frame, with any source.
    pub fn frame(&self, to: Address, from: Address, framing: Framing, header: &Header, body: &[u8]) -> Frame {
        let mut buffer = self.port.caps().pool.take().unwrap();
        let space = buffer.space().unwrap();
        frame::body(space, framing, body.len()).unwrap().copy_from_slice(body);
        let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
        let length = frame::emit(space, framing, &link, header, body.len(), None).unwrap();
        buffer.set_len(length);
        buffer
    }

    /// A control frame.
    pub fn control(&self, to: Address, from: Address, control: &Control) -> Frame {
        let mut body = [0; Control::MAX_BYTES];
        let length = control.emit(&mut body);
        self.frame(to, from, Framing::Plain, &header(Kind::Control, Flow::NODE), &body[..length])
    }

    /// A beacon that claims this.
    pub fn beacon(&self, node: NodeId, name: Name, address: Address) -> Control {
        let (framings, max_frame) = (Framings::ALL, 1514);
        Control::Beacon(Beacon {
            node,
            incarnation: Incarnation(9),
            name,
            address,
            framings,
            max_frame,
            purpose: am_wire::control::Purpose::Announce,
        })
    }

    /// Say an honest name.
    pub fn introduce(&mut self, text: &str) {
        let name = name(text);
        let beacon = self.beacon(NodeId::of(&name), name, self.address());
        self.send(&self.control(Address::BROADCAST, self.address(), &beacon));
    }

    /// Send a frame as soon as there is room.
    pub fn send(&mut self, frame: &Frame) {
        while !self.port.send(Address::BROADCAST, frame) {
            self.port.flush();
            std::thread::yield_now();
        }
        self.port.flush();
    }
}
