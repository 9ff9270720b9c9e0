//! The frames that the examples send.

use am_ring::Frame;
use am_transport::Transport;
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

/// The flow of unicast frames.
pub(crate) const FLOW: Flow = Flow::new(7).unwrap();

/// A broadcast teaches the sender's address; a request goes to one peer.
pub(crate) fn build(end: &dyn Transport, to: Address, len: usize) -> Frame {
    let mut frame = end.caps().pool.take().expect("few are used");
    let space = frame.space().expect("nobody shares it");
    let (kind, flow) = if to.is_group() { (Kind::Control, Flow::NODE) } else { (Kind::Request, FLOW) };
    let header = Header { kind, flow, nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = LinkAddresses { to, from: end.caps().address, ethertype: EtherType::DEFAULT };
    let body = len - Framing::Plain.body_at();
    // In a broadcast, a body of sixes is a probe.
    frame::body(space, Framing::Plain, body).unwrap().fill(6);
    let len = frame::emit(space, Framing::Plain, &link, &header, body, None).unwrap();
    frame.set_len(len);
    frame
}
