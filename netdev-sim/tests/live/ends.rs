//! Ends of a network, and frames that say their number.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use am_netdev_sim::live::{self, Live, Settings};
use am_transport::{Transport, TransportExt};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind, frame};

/// Nothing takes so long when all is well.
pub(crate) const LONG: Duration = Duration::from_secs(20);

const FLOW: u16 = 7;
/// Nothing comes any more.
const QUIET: Duration = Duration::from_millis(5);

/// Of a network of its own: tests run side by side.
pub(crate) fn seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

pub(crate) fn open(settings: &Settings) -> Live {
    let mut end = live::open(settings).unwrap_or_else(|error| panic!("{error}"));
    end.steer(flow(), true);
    end
}

fn flow() -> Flow {
    Flow::new(FLOW).expect("a flow")
}

/// Frames with these numbers, with one doorbell.
pub(crate) fn send(from: &mut Live, to: Address, numbers: Range<u64>) {
    let link = frame::Link { to, from: from.caps().address, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 0, words: 0, seq: 0 };
    for number in numbers {
        let mut frame = from.caps().pool.take().expect("a frame");
        let space = frame.space().expect("nobody shares it");
        frame::body(space, Framing::Plain, 60).expect("room")[..8].copy_from_slice(&number.to_be_bytes());
        let length = frame::emit(space, Framing::Plain, &link, &header, 60, None).expect("room");
        frame.set_len(length);
        assert!(from.send(to, &frame), "room");
    }
    from.flush();
}

/// The numbers of what is there.
pub(crate) fn taken(end: &mut Live) -> Vec<u64> {
    let mut numbers = vec![];
    end.receive(64, &mut |frame| {
        let parsed = frame::parse(frame.bytes(), EtherType::DEFAULT).expect("a frame of ours");
        numbers.push(u64::from_be_bytes(*parsed.payload.first_chunk().expect("a number")));
    });
    numbers
}

/// The numbers of what comes, until they are as many and nothing more comes.
pub(crate) fn arrived(end: &mut Live, least: usize) -> BTreeSet<u64> {
    let (mut all, start) = (BTreeSet::new(), Instant::now());
    let mut since = start;
    loop {
        // However long we were away: what has come by now is looked for before it is said that nothing came.
        let is_late = since.elapsed() >= QUIET;
        let some = taken(end);
        if !some.is_empty() {
            since = Instant::now();
        } else if is_late && all.len() >= least {
            return all;
        }
        all.extend(some);
        assert!(start.elapsed() < LONG, "{} of {least} arrived", all.len());
    }
}
