//! Open ends of wires, and numbered frames for them.
#![allow(dead_code, reason = "not every test uses all of it")]

use am_ring::Frame;
use am_transport::loopback::{self, Loopback, LoopbackOptions};
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

/// The ends of one wire, on this thread, with [`flow`] open at each.
pub(crate) fn ends<const N: usize>(options: LoopbackOptions) -> [Loopback; N] {
    let mut ends = loopback::wire_with(N, options).into_iter().map(|plug| plug.open().unwrap());
    std::array::from_fn(|_| {
        let mut end = ends.next().unwrap();
        end.steer(flow(), true);
        end
    })
}

/// The flow of the numbered frames.
pub(crate) fn flow() -> Flow {
    Flow::new(7).unwrap()
}

/// A frame with a number, 60 bytes.
pub(crate) fn numbered(from: &dyn Transport, to: Address, number: u32) -> Frame {
    let mut frame = from.caps().pool.take().expect("the pool is large enough for the test");
    let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 0, words: 0, seq: number };
    let link = LinkAddresses { to, from: from.caps().address, ethertype: EtherType::DEFAULT };
    let space = frame.space().unwrap();
    frame::body(space, Framing::Split, 20).unwrap().fill(number as u8);
    let length = frame::emit(space, Framing::Split, &link, &header, 20, None).unwrap();
    frame.set_len(length);
    frame
}

/// A frame that steering drops, because its flow is not open.
pub(crate) fn unknown_flow_frame(from: &dyn Transport, to: Address) -> Frame {
    let mut frame = numbered(from, to, 0);
    let source = frame::split_source(Flow::new(99).unwrap(), from.caps().address);
    frame.space().unwrap()[6..12].copy_from_slice(&source.0);
    frame
}

/// The number of a frame.
pub(crate) fn number(frame: &Frame) -> u32 {
    frame::parse(frame.bytes(), EtherType::DEFAULT).unwrap().header.seq
}

/// Send frames with these numbers. There must be room.
pub(crate) fn send(from: &mut dyn Transport, to: Address, numbers: impl IntoIterator<Item = u32>) {
    for n in numbers {
        let frame = numbered(from, to, n);
        assert!(from.send(to, &frame), "there is room");
    }
    from.flush();
}

/// Receive the frames that have arrived. Returns their numbers.
pub(crate) fn receive(at: &mut dyn Transport) -> Vec<u32> {
    let mut numbers = vec![];
    at.receive(usize::MAX, &mut |frame| numbers.push(number(&frame)));
    numbers
}

/// A counter by name.
pub(crate) fn counter(of: &dyn Transport, name: &str) -> u64 {
    let mut found = None;
    of.counters(&mut |its, value| {
        if its == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter is named {name}"))
}

/// Whether every frame of the end's pool is free.
pub(crate) fn are_all_frames_free(end: &dyn Transport) -> bool {
    let pool = &end.caps().pool;
    pool.available() == pool.layout().frames
}
