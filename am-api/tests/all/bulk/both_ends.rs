//! A connection ends in the middle of a transfer: the end that is left hears it once, with the reason, whichever end it is.

use std::time::{Duration, Instant};

use super::*;
use crate::common::LONG;

const LENGTH: usize = 4 << 20;

/// A transfer in the middle, and a place on its wire for one more node.
struct Middle {
    alpha: Side<News>,
    beta: Side<News>,
    to: Connection,
    /// Where the bytes go.
    memory: Region,
    _read: Option<Region>,
    spare: Box<dyn am_api::Transport>,
}

/// Whose transfer it is: alpha asks for it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Put,
    Get,
}

/// How one end goes.
#[derive(Clone, Copy, Debug)]
enum Goes {
    /// Its node is dropped.
    Leaves,
    /// It is killed.
    Dies,
    /// It is killed, and started again.
    Restarts,
}

impl Middle {
    fn of(what: What, faults: Faults) -> Middle {
        let soon = Duration::from_millis(300);
        let builder = |name| plain(name).patience(soon).beacon(soon).keepalive(4 * soon);
        let mut ends = loopback::wire(3).into_iter().map(|plug| plug.open().expect("memory"));
        let mut end = || crate::common::fated::fated(Box::new(Faulty::new(ends.next().expect("three ends"), faults)));
        let (mut alpha, mut beta) = (Side::open(builder("alpha"), end()), Side::open(builder("beta"), end()));
        let to = connect(&mut alpha, &mut beta);
        let (mut alpha, mut beta, to) = listening((alpha, beta, to));
        let (memory, read) = match what {
            What::Put => (zeros(&beta.endpoint, LENGTH, Rights::WRITE), None),
            What::Get => (
                zeros(&alpha.endpoint, LENGTH, Rights::NONE),
                Some(beta.endpoint.register(pattern(LENGTH, 1), Rights::READ)),
            ),
        };
        match &read {
            None => alpha.endpoint.put(to, memory.id(), 0, pattern(LENGTH, 1)),
            Some(read) => alpha.endpoint.get(to, read.id(), 0, LENGTH as u64, &memory, 0),
        }
        .unwrap();
        until(&mut alpha, &mut beta, "some of it is there", |alpha, beta| {
            alpha.counter("bulk_segments_deposited") + beta.counter("bulk_segments_deposited") > 500
        });
        Middle { alpha, beta, to, memory, _read: read, spare: end() }
    }

    /// One end goes: what the other hears.
    fn after(self, goes: Goes, alpha_goes: bool) -> (Heard, Region) {
        let (gone, mut left) = if alpha_goes { (self.alpha, self.beta) } else { (self.beta, self.alpha) };
        let name = gone.node.name().to_owned();
        match goes {
            Goes::Leaves => drop(gone),
            Goes::Dies | Goes::Restarts => crate::common::fated::dies(gone),
        }
        let mut again = matches!(goes, Goes::Restarts).then(|| Side::<News>::open(plain(&name), self.spare));
        let start = Instant::now();
        while left.state.is_empty() {
            again.iter_mut().for_each(|again| _ = again.poll());
            left.poll();
            assert!(start.elapsed() < LONG, "{goes:?} {alpha_goes}: nothing was reported\n{}", left.node.counters());
        }
        (0..2000).for_each(|_| _ = left.poll());
        assert_eq!(left.state.len(), 1, "{:?}", left.state);
        (left.state[0], self.memory)
    }
}

fn is_told(what: What, faults: Faults, alpha_goes: bool) {
    let kind = match (what, alpha_goes) {
        (What::Put, false) => TransferKind::Put,
        (What::Put, true) => TransferKind::Deposited,
        (What::Get, false) => TransferKind::Get,
        (What::Get, true) => TransferKind::Served,
    };
    for (goes, why) in [
        (Goes::Leaves, ReturnReason::Closed),
        (Goes::Dies, ReturnReason::Unreachable),
        (Goes::Restarts, ReturnReason::Restarted),
    ] {
        let (heard, memory) = Middle::of(what, faults).after(goes, alpha_goes);
        let Err(TransferError::Lost { reason, from }) = heard.result else { panic!("{what:?} {goes:?}: {heard:?}") };
        assert_eq!((heard.kind, reason, heard.length), (kind, why, LENGTH as u64), "{what:?} {goes:?}");
        assert_eq!((heard.region, heard.offset), (memory.id(), 0), "{what:?} {goes:?}");
        let (from, bytes) = (from as usize, memory.bytes());
        assert!(bytes[..from] == pattern(LENGTH, 1)[..from], "{what:?} {goes:?}: not all before {from} is there");
        // What receives knows all of it.
        if matches!(kind, TransferKind::Deposited | TransferKind::Get) {
            let first_missing = bytes.iter().zip(pattern(LENGTH, 1)).position(|(&byte, sent)| byte != sent);
            assert!(
                first_missing.is_some_and(|missing| missing - from < 4),
                "{what:?} {goes:?}: {from} {first_missing:?}"
            );
        }
    }
}

#[test]
fn the_receiver_of_a_put_hears_that_its_sender_is_gone() {
    is_told(What::Put, Faults::NONE, true);
    is_told(What::Put, bad(1), true);
}

#[test]
fn the_sender_of_a_put_hears_that_its_receiver_is_gone() {
    is_told(What::Put, Faults::NONE, false);
}

#[test]
fn the_sender_of_a_get_hears_that_its_receiver_is_gone() {
    is_told(What::Get, Faults::NONE, true);
}

#[test]
fn the_receiver_of_a_get_hears_that_its_sender_is_gone() {
    is_told(What::Get, Faults::NONE, false);
    is_told(What::Get, bad(2), false);
}

/// Either end closes the connection: both hear it, and say the truth of what has arrived.
#[test]
fn both_ends_hear_of_a_connection_that_one_of_them_closes() {
    for (what, faults) in [(What::Put, bad(3)), (What::Get, bad(4))] {
        let Middle { mut alpha, mut beta, to, memory, _read, .. } = Middle::of(what, faults);
        alpha.endpoint.close(to);
        until(&mut alpha, &mut beta, "both heard", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
        linger(&mut alpha, &mut beta);
        for side in [&alpha, &beta] {
            let [Heard { result: Err(TransferError::Lost { reason, from }), .. }] = side.state[..] else {
                panic!("{what:?}: {:?}", side.state)
            };
            assert_eq!(reason, ReturnReason::Closed, "{what:?}");
            assert!(memory.bytes()[..from as usize] == pattern(LENGTH, 1)[..from as usize], "{what:?}: {from}");
        }
    }
}

/// What had arrived before the end, and was not yet looked at, is taken in first.
#[test]
fn a_put_that_is_complete_when_its_sender_goes_is_well() {
    let (mut alpha, mut beta, to) = listening(connected());
    let mut other = beta.node.endpoint::<()>("other").unwrap();
    let region = zeros(&beta.endpoint, 100_000, Rights::WRITE);
    let put = |alpha: &mut Side<News>, seed| alpha.endpoint.put(to, region.id(), 0, pattern(100_000, seed)).unwrap();
    // The first says how many frames that takes.
    put(&mut alpha, 1);
    until(&mut alpha, &mut beta, "both are notified", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    let frames = alpha.counter("requests_sent");
    beta.state.clear();
    put(&mut alpha, 2);
    // Frames are taken in with any endpoint's poll; deposited is what is for the one that polls.
    while beta.counter("requests_received") < 2 * frames {
        _ = (alpha.poll(), other.poll(&mut ()));
    }
    drop(alpha);
    (0..100).for_each(|_| _ = other.poll(&mut ()));
    (0..100).for_each(|_| _ = beta.poll());
    let heard: Vec<_> = beta.state.iter().map(|heard| (heard.kind, heard.result)).collect();
    assert_eq!(heard, [(TransferKind::Deposited, Ok(()))]);
    assert!(region.bytes()[..] == pattern(100_000, 2)[..]);
}

/// What left and got lost is not said to have arrived.
#[test]
fn the_sender_that_closes_says_no_more_than_what_arrived() {
    let [left, right] = loopback::pair().map(|plug| plug.open().expect("memory"));
    let (left, switch): (Cut, Switch) = Cut::new("cut", Box::new(left));
    let (mut alpha, mut beta) =
        (Side::open(plain("alpha"), Box::new(left)), Side::open(plain("beta"), Box::new(right)));
    let to = connect(&mut alpha, &mut beta);
    let (mut alpha, mut beta, to) = listening((alpha, beta, to));
    let region = zeros(&beta.endpoint, LENGTH, Rights::WRITE);
    alpha.endpoint.put(to, region.id(), 0, pattern(LENGTH, 1)).unwrap();
    until(&mut alpha, &mut beta, "some", |_, beta| beta.counter("bulk_segments_deposited") > 100);
    switch.set(State::Silent);
    (0..20).for_each(|_| _ = alpha.poll());
    alpha.endpoint.close(to);
    let start = Instant::now();
    while alpha.state.is_empty() {
        alpha.poll();
        assert!(start.elapsed() < LONG);
    }
    let Err(TransferError::Lost { reason: ReturnReason::Closed, from }) = alpha.state[0].result else {
        panic!("{:?}", alpha.state)
    };
    (0..100).for_each(|_| _ = beta.poll());
    assert!(region.bytes()[..from as usize] == pattern(LENGTH, 1)[..from as usize], "{from}");
}
