//! What the tests share: frames with a number in them, and a directory for each test.
#![allow(dead_code, reason = "no test needs all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use am_shm::{Shm, ShmOptions};
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

/// The flow that tests use.
pub(crate) const FLOW: Flow = match Flow::new(7) {
    Some(flow) => flow,
    None => Flow::NODE,
};

/// What should happen happens in far less; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A link of tests in a directory.
pub(crate) fn options(dir: &Path) -> ShmOptions {
    ShmOptions { dir: dir.into(), frames: 1024, frame: Some(4096), ..ShmOptions::new("test") }
}

/// A member that takes frames on [`FLOW`].
pub(crate) fn join(options: &ShmOptions) -> Shm {
    let mut end = am_shm::open(options).unwrap_or_else(|why| panic!("{why}"));
    end.steer(FLOW, true);
    end
}

/// Write a frame with this number; `plain`, so that it says who sent it. `None` if the pool has none.
pub(crate) fn build(end: &Shm, to: Address, number: u64, len: usize) -> Option<am_ring::Frame> {
    let mut buffer = end.caps().pool.take()?;
    let flow = if to.is_group() { Flow::NODE } else { FLOW };
    let kind = if to.is_group() { Kind::Control } else { Kind::Request };
    let body = len - Framing::Plain.body_at();
    let space = buffer.space()?;
    let bytes = frame::body(space, Framing::Plain, body).ok()?;
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = number as u8 ^ at as u8);
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    let header = Header { kind, flow, nonce: 0, handler: 0, words: 0, seq: number as u32 };
    let link = LinkAddresses { to, from: end.caps().address, ethertype: EtherType::DEFAULT };
    let len = frame::emit(space, Framing::Plain, &link, &header, body, None).ok()?;
    buffer.set_len(len);
    Some(buffer)
}

/// Send it if there is room.
pub(crate) fn send(end: &mut Shm, to: Address, number: u64, len: usize) -> bool {
    build(end, to, number, len).is_some_and(|frame| end.send(to, &frame))
}

/// Who sent a frame, and its number. It must be whole.
pub(crate) fn read(bytes: &[u8]) -> (Address, u64) {
    let payload = frame::parse(bytes, EtherType::DEFAULT).unwrap().payload;
    let number = u64::from_be_bytes(*payload.first_chunk().unwrap());
    let wrong = payload.iter().enumerate().skip(8).find(|(at, byte)| **byte != number as u8 ^ *at as u8);
    assert_eq!(wrong, None, "frame {number} changed on its way");
    let from: [u8; 6] = bytes[6..12].try_into().unwrap();
    (Address(from), number)
}

/// Take in what there is.
pub(crate) fn receive(end: &mut Shm) -> Vec<(Address, u64)> {
    let mut got = vec![];
    end.receive(64, &mut |frame| got.push(read(frame.bytes())));
    got
}

/// Every counter.
pub(crate) fn counters(end: &Shm) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    end.counters(&mut |name, value| _ = all.insert(name, value));
    all
}

/// Do it until it says that it is done.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Whether one can reach the other, now.
pub(crate) fn reaches(from: &mut Shm, to: &mut Shm) {
    let address = to.caps().address;
    let mut number = 0;
    until("a frame arrives", || {
        number += 1;
        send(from, address, number, 100);
        from.flush();
        let own = from.caps().address;
        let heard = receive(to).iter().any(|(who, _)| *who == own);
        to.flush();
        heard
    });
    // And nothing of that is left.
    until("the lane is empty", || receive(to).is_empty());
}

/// What is in a directory.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
