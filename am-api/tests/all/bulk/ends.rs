//! Each transfer ends, and both nodes are notified of its end: whichever node dies, however many transfers there are, whatever was lent.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_api::MAX_OWN_TRANSFERS;

use super::*;
use crate::common::{LONG, nodes};

/// Connected nodes of which the first notices soon that the other has died.
fn soon_bereaved() -> (Side<News>, Side<News>, Connection) {
    let soon = Duration::from_millis(400);
    let (mut alpha, mut beta) = nodes(plain("alpha").patience(soon).beacon(soon).keepalive(4 * soon), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    listening((alpha, beta, to))
}

/// All that alpha sent was acknowledged, and nobody polls beta any more, as if it were killed.
fn is_told_that_it_is_lost(mut alpha: Side<News>, beta: Side<News>, kind: TransferKind) {
    crate::common::fated::dies(beta);
    assert!(alpha.endpoint.wait_until(&mut alpha.state, LONG, |news| !news.is_empty()), "{}", alpha.node.counters());
    let heard: Vec<_> = alpha.state.iter().map(|heard| (heard.kind, heard.result)).collect();
    let [(what, Err(TransferError::Lost { reason, .. }))] = heard[..] else { panic!("{heard:?}") };
    assert_eq!((what, reason), (kind, ReturnReason::Unreachable));
}

#[test]
fn a_get_whose_peer_dies_after_it_has_acknowledged_it_ends() {
    let (mut alpha, mut beta, to) = soon_bereaved();
    let (there, here) = (zeros(&beta.endpoint, 4 << 20, Rights::READ), zeros(&alpha.endpoint, 4 << 20, Rights::NONE));
    alpha.endpoint.get(to, there.id(), 0, 4 << 20, &here, 0).unwrap();
    until(&mut alpha, &mut beta, "some of it is here", |alpha, _| {
        alpha.counter("bulk_segments_deposited") > 0 && alpha.counter("acks_received") > 0
    });
    is_told_that_it_is_lost(alpha, beta, TransferKind::Get);
}

#[test]
fn a_put_whose_peer_dies_before_it_has_told_of_its_end_ends() {
    let (mut alpha, beta, to) = soon_bereaved();
    // Frames are taken in with any endpoint's poll; deposited is what is for the one that polls.
    let mut other = beta.node.endpoint::<()>("other").unwrap();
    let region = zeros(&beta.endpoint, 5000, Rights::WRITE);
    alpha.endpoint.put(to, region.id(), 0, pattern(5000, 1)).unwrap();
    let start = Instant::now();
    while beta.counter("requests_received") < 4 || alpha.endpoint.credit(to) < 100 {
        _ = (alpha.poll(), other.poll(&mut ()));
        assert!(start.elapsed() < LONG, "{}", alpha.node.counters());
    }
    for _ in 0..100 {
        _ = (alpha.poll(), other.poll(&mut ()));
    }
    crate::common::fated::dies(other);
    is_told_that_it_is_lost(alpha, beta, TransferKind::Put);
}

#[test]
fn an_id_is_one_regions_however_many_there_were() {
    let (mut alpha, mut beta, to) = listening(connected());
    let stale = zeros(&beta.endpoint, 1, Rights::WRITE).id();
    let all: Vec<Region> = (0..70_000).map(|_| zeros(&beta.endpoint, 1, Rights::WRITE)).collect();
    (0..70_000).for_each(|_| assert_ne!(zeros(&beta.endpoint, 1, Rights::WRITE).id(), stale));
    alpha.endpoint.put(to, all[65_536].id(), 0, [7]).unwrap();
    alpha.endpoint.put(to, stale, 0, [8]).unwrap();
    until(&mut alpha, &mut beta, "both heard", |alpha, _| alpha.state.len() == 2);
    assert_eq!(alpha.state.iter().filter(|heard| heard.result == Err(TransferError::NoRegion)).count(), 1);
    let written: Vec<usize> = (0..all.len()).filter(|&at| all[at].bytes()[0] != 0).collect();
    assert_eq!((written, all[65_536].bytes()[0]), (vec![65_536], 7));
}

/// Thousands of transfers at once, both ways: both nodes are notified of each.
#[test]
fn however_many_transfers_are_over_at_once_all_are_told_of() {
    const EACH: usize = 3000;
    let (mut alpha, mut beta, to) = listening(connected());
    let back = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "connected back", |_, beta| beta.endpoint.is_open(back));
    let (here, there) = (zeros(&alpha.endpoint, 8 * EACH, Rights::BOTH), zeros(&beta.endpoint, 8 * EACH, Rights::BOTH));
    for at in 0..EACH as u64 {
        alpha.endpoint.put(to, there.id(), 8 * at, at.to_be_bytes()).unwrap();
        beta.endpoint.put(back, here.id(), 8 * at, at.to_be_bytes()).unwrap();
        alpha.endpoint.put(to, RegionId(9999), 0, [0; 8]).unwrap();
    }
    let told = |side: &Side<News>, kind| side.state.iter().filter(|heard| heard.kind == kind).count();
    until(&mut alpha, &mut beta, "all are notified", |alpha, beta| {
        told(alpha, TransferKind::Put) == 2 * EACH
            && told(beta, TransferKind::Put) == EACH
            && told(alpha, TransferKind::Deposited) + told(beta, TransferKind::Deposited) == 2 * EACH
    });
}

/// Who takes no news is slowed down, and keeps nobody else from theirs.
#[test]
fn one_peer_that_is_not_polled_costs_another_nothing() {
    let mut ends = loopback::wire(3).into_iter().map(|plug| Box::new(plug.open().expect("memory")));
    let mut end = || ends.next().expect("three ends");
    let mut open = |name| Side::<News>::open(plain(name), end());
    let (mut alpha, mut beta, mut gamma) = (open("alpha"), open("beta"), open("gamma"));
    let mut other = alpha.node.endpoint::<()>("other").unwrap();
    let (from_alpha, from_gamma) = (connect(&mut alpha, &mut beta), connect(&mut gamma, &mut beta));
    [&mut alpha, &mut beta, &mut gamma].into_iter().for_each(|side| listen(&mut side.endpoint));
    let region = zeros(&beta.endpoint, 8, Rights::WRITE);
    (0..5000).for_each(|_| _ = alpha.endpoint.put(from_alpha, region.id(), 0, [1; 8]).unwrap());
    for _ in 0..5000 {
        _ = (other.poll(&mut ()), beta.poll());
    }
    (0..5).for_each(|_| _ = gamma.endpoint.put(from_gamma, region.id(), 0, [1; 8]).unwrap());
    let start = Instant::now();
    while gamma.state.len() < 5 {
        _ = (other.poll(&mut ()), beta.poll(), gamma.poll());
        assert!(start.elapsed() < LONG, "{}", beta.node.counters());
    }
    until(&mut alpha, &mut beta, "all are notified, once it polls", |alpha, _| alpha.state.len() == 5000);
}

/// What was lent is dropped where it may call the node.
#[test]
fn lent_data_may_call_its_node_when_it_is_dropped() {
    struct Calls(Rc<RefCell<Option<Endpoint<()>>>>);
    impl AsRef<[u8]> for Calls {
        fn as_ref(&self) -> &[u8] {
            &[5; 8]
        }
    }
    impl Drop for Calls {
        fn drop(&mut self) {
            let endpoint = self.0.borrow();
            if let Some(endpoint) = endpoint.as_ref() {
                endpoint.flush();
            }
        }
    }
    let (mut alpha, mut beta, to) = listening(connected());
    let region = zeros(&beta.endpoint, 8, Rights::WRITE);
    let other = Rc::new(RefCell::new(Some(alpha.node.endpoint::<()>("other").unwrap())));
    alpha.endpoint.put(to, region.id(), 0, Calls(other.clone())).unwrap();
    until(&mut alpha, &mut beta, "put", |alpha, _| alpha.state.len() == 1);
    alpha.endpoint.put(to, region.id(), 0, Calls(other.clone())).unwrap();
    drop(alpha.endpoint);
    other.borrow_mut().take();
}

/// A transfer waits for room as every message does.
#[test]
fn a_node_has_so_many_transfers_under_way() {
    let (mut alpha, mut beta, to) = listening(connected());
    let (theirs, ours) = (zeros(&beta.endpoint, 8, Rights::BOTH), zeros(&alpha.endpoint, 8, Rights::NONE));
    let put = |alpha: &Side<News>| alpha.endpoint.put(to, theirs.id(), 0, b"hello");
    let get = |alpha: &Side<News>| alpha.endpoint.get(to, theirs.id(), 0, 8, &ours, 0);
    for _ in 0..MAX_OWN_TRANSFERS {
        put(&alpha).expect("room");
        get(&alpha).expect("room");
    }
    assert_eq!((put(&alpha), get(&alpha)), (Err(TransferError::TooMany), Err(TransferError::TooMany)));
    let has_ended = |alpha: &Side<News>, kind| alpha.state.iter().any(|heard| heard.kind == kind);
    until(&mut alpha, &mut beta, "some ended", |alpha, _| {
        has_ended(alpha, TransferKind::Put) && has_ended(alpha, TransferKind::Get)
    });
    assert!(put(&alpha).is_ok() && get(&alpha).is_ok());
}
