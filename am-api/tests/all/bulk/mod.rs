//! Bulk transfers: what is put is there, once, or both ends hear why not.

mod both_ends;
mod cancel;
mod ends;

use crate::common::{Side, connect, connected, plain, until};
use crate::cut::{Cut, State, Switch};
use am_api::{
    Connection, Endpoint, HandlerId, Region, RegionId, Request, ReturnReason, Rights, TransferError, TransferId,
    TransferKind,
};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

/// What an endpoint heard of transfers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Heard {
    kind: TransferKind,
    id: TransferId,
    region: RegionId,
    offset: u64,
    length: u64,
    result: Result<(), TransferError>,
}

type News = Vec<Heard>;

fn listen(endpoint: &mut Endpoint<News>) {
    endpoint.on_transfer(|news, over| {
        assert!(!over.endpoint.name().is_empty());
        let am_api::Transfer { kind, id, region, offset, length, result, .. } = over;
        news.push(Heard { kind, id, region, offset, length, result });
    });
}

fn listening(mut sides: (Side<News>, Side<News>, Connection)) -> (Side<News>, Side<News>, Connection) {
    listen(&mut sides.0.endpoint);
    listen(&mut sides.1.endpoint);
    sides
}

fn over(faults: Faults) -> (Side<News>, Side<News>, Connection) {
    let [left, right] = loopback::pair().map(|plug| Faulty::new(plug.open().expect("memory"), faults));
    let (mut alpha, mut beta) =
        (Side::open(plain("alpha"), Box::new(left)), Side::open(plain("beta"), Box::new(right)));
    let to = connect(&mut alpha, &mut beta);
    listening((alpha, beta, to))
}

fn bad(seed: u64) -> Faults {
    Faults { duplicate: 0.01, reorder: 0.05, reorder_by: 8, ..Faults::lossy(seed, 0.01) }
}

/// Bytes that depend on where they are.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn zeros<S>(endpoint: &Endpoint<S>, length: usize, rights: Rights) -> Region {
    endpoint.register(vec![0; length], rights)
}

/// Turns in which nothing more may happen.
fn linger(alpha: &mut Side<News>, beta: &mut Side<News>) {
    (0..2000).for_each(|_| _ = (alpha.poll(), beta.poll()));
}

fn put_of(sides: (Side<News>, Side<News>, Connection), length: usize) {
    let (mut alpha, mut beta, to) = sides;
    let region = zeros(&beta.endpoint, length + 20, Rights::WRITE);
    let data = pattern(length, 1);
    let id = alpha.endpoint.put(to, region.id(), 7, data.clone()).unwrap();
    until(&mut alpha, &mut beta, "both heard", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    linger(&mut alpha, &mut beta);
    let heard = |kind| Heard { kind, id, region: region.id(), offset: 7, length: length as u64, result: Ok(()) };
    assert_eq!(alpha.state, [heard(TransferKind::Put)], "once");
    assert_eq!(beta.state, [heard(TransferKind::Deposited)], "once");
    let bytes = region.bytes();
    assert!(bytes[7..][..length] == data, "{length} bytes");
    assert!(bytes[..7].iter().chain(&bytes[7 + length..]).all(|&byte| byte == 0), "nothing beside it");
}

#[test]
fn what_is_put_is_there() {
    for length in [0, 1, 5, 60, 1400, 1500, 5000, 3 << 20] {
        put_of(listening(connected()), length);
    }
}

#[test]
fn whatever_the_network_does() {
    for seed in 0..4 {
        put_of(over(bad(seed)), 4 << 20);
    }
}

#[test]
fn what_is_got_is_here() {
    for (length, faults) in [(0, Faults::NONE), (1, Faults::NONE), (100_000, Faults::NONE), (3 << 20, bad(9))] {
        let (mut alpha, mut beta, to) = over(faults);
        let theirs = beta.endpoint.register(pattern(length + 10, 2), Rights::READ);
        let ours = zeros(&alpha.endpoint, length + 5, Rights::NONE);
        let id = alpha.endpoint.get(to, theirs.id(), 10, length as u64, &ours, 5).unwrap();
        until(&mut alpha, &mut beta, "both heard", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
        linger(&mut alpha, &mut beta);
        let heard = |kind| Heard { kind, id, region: ours.id(), offset: 5, length: length as u64, result: Ok(()) };
        assert_eq!(alpha.state, [heard(TransferKind::Get)]);
        assert_eq!(beta.state, [heard(TransferKind::Served)]);
        assert!(ours.bytes()[5..] == theirs.bytes()[10..]);
        assert_eq!(ours.bytes()[..5], [0; 5]);
    }
}

#[test]
fn many_at_once_in_both_directions_and_messages_between() {
    const EACH: usize = 20;
    const LENGTH: usize = 50_000;
    let (mut alpha, mut beta, to) = over(bad(3));
    beta.endpoint.on_request(HandlerId(0), |_, Request { message: request, token }| {
        token.reply(HandlerId(0), request.words(), request.payload()).unwrap();
    });
    let back = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "connected back", |_, beta| beta.endpoint.is_open(back));
    let here = zeros(&alpha.endpoint, EACH * LENGTH, Rights::WRITE);
    let there = zeros(&beta.endpoint, EACH * LENGTH, Rights::BOTH);
    for at in 0..EACH {
        let offset = (at * LENGTH) as u64;
        alpha.endpoint.put(to, there.id(), offset, pattern(LENGTH, at as u64)).unwrap();
        beta.endpoint.put(back, here.id(), offset, pattern(LENGTH, 100 + at as u64)).unwrap();
    }
    alpha.endpoint.on_unhandled(|_, _| ());
    let mut asked = 0;
    until(&mut alpha, &mut beta, "all heard", |alpha, beta| {
        asked += alpha.endpoint.try_request(to, HandlerId(0), &[asked], b"small").map_or(0, |()| 1);
        alpha.state.len() == 2 * EACH && beta.state.len() == 2 * EACH
    });
    assert!(asked > 20, "messages find credit beside transfers: {asked}");
    for at in 0..EACH {
        assert!(there.bytes()[at * LENGTH..][..LENGTH] == pattern(LENGTH, at as u64));
        assert!(here.bytes()[at * LENGTH..][..LENGTH] == pattern(LENGTH, 100 + at as u64));
    }
    assert!(alpha.state.iter().chain(&beta.state).all(|heard| heard.result.is_ok()));
    // A reply may have come that was not looked at yet.
    until(&mut alpha, &mut beta, "every reply seen", |alpha, _| {
        alpha.counter("unhandled") == alpha.counter("replies_received")
    });
    assert_eq!(beta.counter("no_handler"), 0);
}

#[test]
fn a_transfer_leaves_credit_to_messages() {
    let (mut alpha, beta, to) = listening(connected());
    let region = zeros(&beta.endpoint, 4 << 20, Rights::WRITE);
    alpha.endpoint.put(to, region.id(), 0, pattern(4 << 20, 1)).unwrap();
    let before = alpha.endpoint.credit(to);
    // Nothing is acknowledged: the other side is not polled.
    (0..100).for_each(|_| _ = alpha.poll());
    let left = alpha.endpoint.credit(to);
    assert!(left >= before / 8 && left < before / 2, "{left} of {before}");
    alpha.endpoint.try_request(to, HandlerId(0), &[], b"small").unwrap();
}

/// Small messages that wait for the same flow share a frame; parts of transfers do not.
#[test]
fn small_transfers_beside_small_messages() {
    let (mut alpha, mut beta, to) = listening(connected());
    beta.endpoint
        .on_request(HandlerId(0), |_, Request { message: request, .. }| assert_eq!(request.payload(), b"small"));
    let region = zeros(&beta.endpoint, 500, Rights::WRITE);
    let mut sent = 0;
    for round in 0..100 {
        for at in 0..5 {
            alpha.endpoint.put(to, region.id(), (round * 5 + at) as u64, [round as u8 + 1]).unwrap();
            sent += alpha.endpoint.try_request(to, HandlerId(0), &[], b"small").map_or(0, |()| 1);
        }
        (0..5).for_each(|_| _ = (alpha.poll(), beta.poll()));
    }
    until(&mut alpha, &mut beta, "all heard", |alpha, beta| {
        alpha.state.len() == 500 && beta.counter("requests_received") >= 500 + sent
    });
    assert!(alpha.state.iter().all(|heard| heard.result.is_ok()) && beta.state.len() == 500);
    assert!(region.bytes().iter().enumerate().all(|(at, &byte)| byte == (at / 5) as u8 + 1));
    assert_eq!((beta.counter("no_handler"), beta.counter("bulk_senseless")), (0, 0));
}

/// The peer refuses; nothing is written, both go on.
fn refused(region: impl FnOnce(&Side<News>) -> (RegionId, u64), length: usize, why: TransferError) {
    let (mut alpha, mut beta, to) = listening(connected());
    let mine = zeros(&beta.endpoint, 10_000, Rights::WRITE);
    let (id, offset) = region(&beta);
    alpha.endpoint.put(to, id, offset, pattern(length, 1)).unwrap();
    until(&mut alpha, &mut beta, "heard", |alpha, _| !alpha.state.is_empty());
    linger(&mut alpha, &mut beta);
    assert_eq!(alpha.state.iter().map(|heard| heard.result).collect::<Vec<_>>(), [Err(why)]);
    assert!(beta.state.is_empty() && beta.counter("bulk_refused") > 0);
    assert!(mine.bytes().iter().all(|&byte| byte == 0));
    alpha.endpoint.put(to, mine.id(), 0, b"after it").unwrap();
    until(&mut alpha, &mut beta, "the next one", |alpha, _| alpha.state.len() == 2);
    assert_eq!(&mine.bytes()[..8], b"after it");
}

#[test]
fn no_such_region() {
    for length in [0, 9, 9000] {
        refused(|_| (RegionId(77), 0), length, TransferError::NoRegion);
        refused(|beta| (zeros(&beta.endpoint, 10, Rights::BOTH).id(), 0), length, TransferError::NoRegion);
        let other = |beta: &Side<News>| {
            let port = beta.node.endpoint::<()>("other").unwrap();
            let region = port.register(vec![0; 10], Rights::BOTH).id();
            std::mem::forget(port);
            (region, 0)
        };
        refused(other, 9, TransferError::NoRegion);
    }
}

/// The next endpoint may have the number of the one before it.
#[test]
fn regions_go_with_their_endpoint() {
    let (mut alpha, mut beta, _) = listening(connected());
    let region = zeros(&beta.endpoint, 10, Rights::BOTH);
    let other = beta.node.endpoint("other").unwrap();
    drop(std::mem::replace(&mut beta.endpoint, other));
    beta.endpoint = beta.node.endpoint("main").unwrap();
    let to = alpha.endpoint.connect("beta", "main").unwrap();
    until(&mut alpha, &mut beta, "connected", |alpha, _| alpha.endpoint.is_open(to));
    alpha.endpoint.put(to, region.id(), 0, b"no").unwrap();
    until(&mut alpha, &mut beta, "heard", |alpha, _| !alpha.state.is_empty());
    assert_eq!(alpha.state[0].result, Err(TransferError::NoRegion));
}

#[test]
fn not_allowed_or_beyond_the_end() {
    let keep = |region: Region| {
        let id = region.id();
        std::mem::forget(region);
        id
    };
    refused(|beta| (keep(zeros(&beta.endpoint, 9000, Rights::READ)), 0), 9000, TransferError::Denied);
    refused(|beta| (keep(zeros(&beta.endpoint, 9000, Rights::WRITE)), 1), 9000, TransferError::OutOfBounds);
    refused(|beta| (keep(zeros(&beta.endpoint, 9000, Rights::WRITE)), u64::MAX), 2, TransferError::OutOfBounds);
    refused(|beta| (keep(zeros(&beta.endpoint, 9000, Rights::WRITE)), 9001), 0, TransferError::OutOfBounds);
}

#[test]
fn gets_are_refused_too() {
    let (mut alpha, mut beta, to) = listening(connected());
    let closed = zeros(&beta.endpoint, 100, Rights::WRITE);
    let open = zeros(&beta.endpoint, 100, Rights::READ);
    let ours = alpha.endpoint.register(vec![9; 1000], Rights::NONE);
    alpha.endpoint.get(to, closed.id(), 0, 10, &ours, 0).unwrap();
    alpha.endpoint.get(to, open.id(), 91, 10, &ours, 0).unwrap();
    alpha.endpoint.get(to, RegionId(5), 0, 10, &ours, 0).unwrap();
    for (length, into) in [(10, 991), (1001, 0), (1 << 32, 0), ((1 << 32) + 1, 0), (u64::MAX, 1), (1, u64::MAX)] {
        let got = alpha.endpoint.get(to, open.id(), 0, length, &ours, into);
        let error = if length > 1 << 32 { TransferError::TooLong } else { TransferError::OutOfBounds };
        assert_eq!(got, Err(error), "{length} into {into}");
    }
    until(&mut alpha, &mut beta, "all heard", |alpha, _| alpha.state.len() == 3);
    let results: Vec<_> = alpha.state.iter().map(|heard| heard.result.unwrap_err()).collect();
    assert_eq!(results, [TransferError::Denied, TransferError::OutOfBounds, TransferError::NoRegion]);
    assert!(ours.bytes().iter().all(|&byte| byte == 9));
    // Nor does having got from somebody let him put.
    let back = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "connected back", |_, beta| beta.endpoint.is_open(back));
    beta.endpoint.put(back, ours.id(), 0, b"!").unwrap();
    until(&mut alpha, &mut beta, "heard", |_, beta| !beta.state.is_empty());
    assert_eq!(beta.state[0].result, Err(TransferError::Denied));
}

#[test]
fn a_region_may_go_in_the_middle() {
    let (mut alpha, mut beta, to) = listening(connected());
    let region = zeros(&beta.endpoint, 1 << 20, Rights::WRITE);
    alpha.endpoint.put(to, region.id(), 0, pattern(1 << 20, 1)).unwrap();
    until(&mut alpha, &mut beta, "some", |_, beta| beta.counter("bulk_segments_deposited") > 50);
    drop(region);
    until(&mut alpha, &mut beta, "heard", |alpha, _| !alpha.state.is_empty());
    linger(&mut alpha, &mut beta);
    let ends = |side: &Side<News>| side.state.iter().map(|heard| (heard.kind, heard.result)).collect::<Vec<_>>();
    assert_eq!(ends(&alpha), [(TransferKind::Put, Err(TransferError::NoRegion))]);
    assert_eq!(ends(&beta), [(TransferKind::Deposited, Err(TransferError::NoRegion))]);
}

#[test]
fn the_peer_may_go_in_the_middle() {
    let (mut alpha, mut beta, to) = listening(connected());
    let region = zeros(&beta.endpoint, 4 << 20, Rights::WRITE);
    let ours = zeros(&alpha.endpoint, 100, Rights::NONE);
    alpha.endpoint.put(to, region.id(), 0, pattern(4 << 20, 1)).unwrap();
    until(&mut alpha, &mut beta, "some", |_, beta| beta.counter("bulk_segments_deposited") > 100);
    alpha.endpoint.get(to, region.id(), 0, 100, &ours, 0).unwrap();
    let deposited = region.bytes().iter().rposition(|&byte| byte != 0).unwrap() as u64;
    // It stops as if its power was cut: no peer is notified.
    crate::common::fated::dies(beta);
    let heard = alpha.endpoint.wait_until(&mut alpha.state, crate::common::LONG, |news| news.len() == 2);
    assert!(heard, "{:?}", alpha.state);
    for heard in &alpha.state {
        let Err(TransferError::Lost { reason, from }) = heard.result else { panic!("{heard:?}") };
        assert_eq!(reason, ReturnReason::Unreachable);
        assert!(from <= deposited + 1, "{from}: what comes before has arrived, and {deposited} is the last there");
    }
    assert!(alpha.endpoint.put(to, region.id(), 0, b"no").is_err());
}

/// A transfer of 2 MiB after others like it, with `each_turn` before each turn of both sides: how often it
/// allocates, how many messages are sent again.
fn a_later_put(
    (mut alpha, mut beta, to): (Side<News>, Side<News>, Connection),
    mut each_turn: impl FnMut(u64),
) -> (u64, u64) {
    const LENGTH: usize = 2 << 20;
    let region = zeros(&beta.endpoint, LENGTH, Rights::WRITE);
    let data: std::sync::Arc<[u8]> = pattern(LENGTH, 1).into();
    let put = |alpha: &mut Side<News>, beta: &mut Side<News>, each_turn: &mut dyn FnMut(u64)| {
        alpha.endpoint.put(to, region.id(), 0, data.clone()).unwrap();
        let mut turns = 0..;
        while alpha.state.is_empty() {
            turns.next().into_iter().for_each(&mut *each_turn);
            _ = (alpha.poll(), beta.poll());
        }
        alpha.state.clear();
        beta.state.clear();
    };
    (0..4).for_each(|_| put(&mut alpha, &mut beta, &mut |_| ()));
    let before = alpha.counter("retransmitted");
    let counted = allocation_counter::measure(|| put(&mut alpha, &mut beta, &mut each_turn)).count_total;
    (counted, alpha.counter("retransmitted") - before)
}

#[test]
fn segments_allocate_nothing() {
    // What a transport does once a second may fall into one of them.
    let counted = (0..3).map(|_| a_later_put(listening(connected()), |_| ()).0).min();
    assert!(counted <= Some(1), "{counted:?} allocations");
}

/// Nor do the first that are lost on a flow, or come again.
#[test]
fn lost_segments_allocate_nothing() {
    // Loss that never strikes makes of both ends what repairs loss.
    let rare = Faults { drop: f64::MIN_POSITIVE, ..Faults::NONE };
    let [left, right] = loopback::pair().map(|plug| Faulty::new(plug.open().expect("memory"), rare));
    let (left, switch): (Cut, Switch) = Cut::new("cut", Box::new(left));
    let (mut alpha, mut beta) =
        (Side::open(plain("alpha"), Box::new(left)), Side::open(plain("beta"), Box::new(right)));
    let to = connect(&mut alpha, &mut beta);
    let sides = listening((alpha, beta, to));
    let (counted, again) =
        a_later_put(sides, |turn| switch.set(if turn % 8 == 4 { State::Silent } else { State::Whole }));
    assert!(again > 0, "nothing was lost");
    assert!(counted <= 1, "{counted} allocations, {again} messages sent again");
}
