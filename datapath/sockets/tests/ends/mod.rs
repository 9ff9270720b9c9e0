//! Two sockets on loopback, and distinguishable frames.

#![allow(dead_code)] // each test uses a part

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_sockets::{SocketOptions, Tcp, Udp, tcp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

/// Without any progress for so long, something will not happen any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const FLOW: Flow = Flow::new(7).unwrap();

/// What the name says.
pub(crate) fn options(name: &str) -> SocketOptions {
    SocketOptions::from_name(&name.parse().unwrap()).unwrap()
}

/// A UDP socket, with the flow open.
pub(crate) fn udp(name: &str) -> Udp {
    let mut end = udp::open(&options(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    end.steer(FLOW, true);
    end
}

/// Where it is, as others write it.
pub(crate) fn place(end: &dyn Transport) -> String {
    end.caps().name.split_once(':').unwrap().1.to_string()
}

/// Two of them that know each other's places.
pub(crate) fn udp_pair(name: &str) -> [Udp; 2] {
    let mut ends = [udp(name), udp(name)];
    let places = [place(&ends[0]), place(&ends[1])];
    ends[0].add_peer(&places[1]).unwrap();
    ends[1].add_peer(&places[0]).unwrap();
    ends
}

/// A frame of this length that carries a number: a beacon's form for everybody, a request for one.
pub(crate) fn numbered(from: &dyn Transport, to: Address, number: u32, len: usize) -> Frame {
    numbered_as(from, from.caps().address, to, number, len)
}

/// The same, in the name of somebody.
pub(crate) fn numbered_as(end: &dyn Transport, from: Address, to: Address, number: u32, len: usize) -> Frame {
    let mut frame = end.caps().pool.take().expect("the pool is not empty");
    let space = frame.space().unwrap();
    let body = len - Framing::Plain.body_at();
    let (kind, flow) = if to.is_group() { (Kind::Control, Flow::NODE) } else { (Kind::Request, FLOW) };
    let place = frame::body(space, Framing::Plain, body).unwrap();
    place.fill(number as u8);
    // What the gate takes for a probe.
    place[0] = if to.is_group() { 6 } else { number as u8 };
    let header = Header { kind, flow, nonce: 0, handler: 0, words: 0, seq: number };
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let len = frame::emit(space, Framing::Plain, &link, &header, body, None).unwrap();
    frame.set_len(len);
    frame
}

pub(crate) fn number(frame: &Frame) -> u32 {
    let parsed = frame::parse(frame.bytes(), EtherType::DEFAULT).expect("a frame that was sent here");
    let skipped = usize::from(parsed.header.kind == Kind::Control);
    assert!(parsed.payload[skipped..].iter().all(|byte| *byte == parsed.header.seq as u8), "its bytes are its own");
    parsed.header.seq
}

pub(crate) fn counter(end: &dyn Transport, name: &str) -> u64 {
    let mut found = None;
    end.counters(&mut |its, value| {
        if its == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter `{name}`"))
}

/// The numbers that are there now.
pub(crate) fn receive(end: &mut dyn Transport) -> Vec<u32> {
    let mut numbers = vec![];
    end.flush();
    end.receive(64, &mut |frame| numbers.push(number(&frame)));
    numbers
}

/// Turn all ends until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Receive until `many` frames have arrived. Returns their numbers.
pub(crate) fn receive_so_many(end: &mut dyn Transport, many: usize) -> Vec<u32> {
    let mut numbers = vec![];
    while numbers.len() < many {
        let before = numbers.len();
        until("another frame arrives", || {
            numbers.extend(receive(end));
            numbers.len() > before
        });
    }
    numbers
}

/// Nothing arrives for a while.
pub(crate) fn is_quiet(end: &mut dyn Transport) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        if !receive(end).is_empty() {
            return false;
        }
    }
    true
}

/// Both have heard a beacon of each other.
pub(crate) fn acquaint(ends: &mut [Udp; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let beacon = numbered(&ends[from], Address::BROADCAST, 0, 100);
        assert!(ends[from].send(Address::BROADCAST, &beacon), "room");
        ends[from].flush();
        receive_so_many(&mut ends[to], 1);
    }
}

/// A TCP socket, with the flow open.
pub(crate) fn tcp(name: &str) -> Tcp {
    let mut end = tcp::open(&options(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    end.steer(FLOW, true);
    end
}

/// Two connected TCP ends. The first `introduce` of them know the other's address.
pub(crate) fn tcp_pair(name: &str, introduce: usize) -> [Tcp; 2] {
    let mut ends = [tcp(name), tcp(name)];
    let places = [place(&ends[0]), place(&ends[1])];
    for end in 0..introduce {
        ends[end].add_peer(&places[1 - end]).unwrap();
    }
    connect(&mut ends);
    ends
}

/// Turn both until each knows the other.
pub(crate) fn connect(ends: &mut [Tcp]) {
    until("they connect", || {
        ends.iter_mut().for_each(|end| assert!(receive(end).is_empty()));
        ends.iter().all(|end| counter(end, "tcp_peers") > 0)
    });
}

/// Two of them on this host, each connected to the other.
pub(crate) fn connected_pair(host: &str) -> [Udp; 2] {
    let address: IpAddr = host.trim_matches(['[', ']']).parse().unwrap();
    let [one, other] = [(); 2].map(|()| SocketAddr::new(address, am_netns::free_port(address)));
    [(one, other), (other, one)].map(|(local, peer)| udp(&format!("udp:{local},connect={peer}")))
}
