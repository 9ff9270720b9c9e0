//! Nodes of a live network, and frames with a number in them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use am_netdev_sim::live::{self, LiveNic, SimSettings};
use am_transport::{Transport, TransportExt};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind, frame};

/// Nothing takes this long unless a test fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

const FLOW: u16 = 7;
/// After this time without a frame no more are expected.
const QUIET_TIME: Duration = Duration::from_millis(5);

/// A seed that no other test uses, because tests run at the same time.
pub(crate) fn seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

pub(crate) fn open(settings: &SimSettings) -> LiveNic {
    let mut end = live::open(settings).unwrap_or_else(|error| panic!("{error}"));
    end.steer(flow(), true);
    end
}

fn flow() -> Flow {
    Flow::new(FLOW).expect("a flow")
}

/// Send frames with these numbers, with one doorbell.
pub(crate) fn send(from: &mut LiveNic, to: Address, numbers: Range<u64>) {
    let link = frame::LinkAddresses { to, from: from.caps().address, ethertype: EtherType::DEFAULT };
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

/// Receive the frames that have arrived. Returns their numbers.
pub(crate) fn receive_numbers(end: &mut LiveNic) -> Vec<u64> {
    let mut numbers = vec![];
    end.receive(64, &mut |frame| {
        let parsed = frame::parse(frame.bytes(), EtherType::DEFAULT).expect("a frame of ours");
        numbers.push(u64::from_be_bytes(*parsed.payload.first_chunk().expect("a number")));
    });
    numbers
}

/// Receive until at least this many frames have arrived and no more come. Returns their numbers.
pub(crate) fn receive_until_quiet(end: &mut LiveNic, least: usize) -> BTreeSet<u64> {
    let (mut all, start) = (BTreeSet::new(), Instant::now());
    let mut since = start;
    loop {
        // This thread may have been descheduled, so the time is read before the last look.
        let is_late = since.elapsed() >= QUIET_TIME;
        let some = receive_numbers(end);
        if !some.is_empty() {
            since = Instant::now();
        } else if is_late && all.len() >= least {
            return all;
        }
        all.extend(some);
        assert!(start.elapsed() < TEST_TIMEOUT, "{} of {least} arrived", all.len());
    }
}
