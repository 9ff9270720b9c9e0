//! Control frames of hosts that there are not.

use am_wire::control::Control;
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};

/// From this source, to everybody. The body may make no sense.
pub fn control_frame(from: Address, body: &[u8]) -> Vec<u8> {
    let link = LinkAddresses { to: Address::BROADCAST, from, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    let mut bytes = vec![0; frame::length(Framing::Plain, body.len())];
    frame::body(&mut bytes, Framing::Plain, body.len()).unwrap().copy_from_slice(body);
    frame::emit(&mut bytes, Framing::Plain, &link, &header, body.len(), None).unwrap();
    bytes
}

/// The same that says this.
pub fn said(from: Address, control: &Control) -> Vec<u8> {
    let mut body = [0; Control::MAX_BYTES];
    let length = control.emit(&mut body);
    control_frame(from, &body[..length])
}
