//! A transfer is cancelled, and a region gives its memory back.

use std::rc::Rc;

use super::*;

const LENGTH: usize = 4 << 20;

/// What either side heard, and that it was one event.
fn only(side: &Side<News>) -> Heard {
    let [heard] = side.state[..] else { panic!("{:?}", side.state) };
    heard
}

/// Both heard that it was cancelled at the same byte: everything before is there, and nothing after it.
fn is_cancelled(alpha: &mut Side<News>, beta: &mut Side<News>, memory: &Region, kinds: [TransferKind; 2]) -> usize {
    until(alpha, beta, "both heard", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    linger(alpha, beta);
    let (here, there) = (only(alpha), only(beta));
    assert_eq!([here.kind, there.kind], kinds);
    assert_eq!(here.result, there.result, "both know the same");
    let Err(TransferError::Cancelled { from }) = here.result else { panic!("{here:?}") };
    let (from, bytes) = (from as usize, memory.bytes());
    assert!(bytes[..from] == pattern(LENGTH, 1)[..from], "not all before {from} is there");
    assert!(bytes[from..].iter().all(|&byte| byte == 0), "something behind {from} is there");
    assert!(from < LENGTH);
    [alpha, beta].into_iter().for_each(|side| side.state.clear());
    from
}

fn deposited(alpha: &Side<News>, beta: &Side<News>) -> u64 {
    alpha.counter("bulk_segments_deposited") + beta.counter("bulk_segments_deposited")
}

#[test]
fn a_cancelled_put_ends_at_both_sides() {
    for (faults, segments) in [(Faults::NONE, 0), (Faults::NONE, 500), (bad(1), 500), (bad(2), 1000)] {
        let (mut alpha, mut beta, to) = over(faults);
        let region = zeros(&beta.endpoint, LENGTH, Rights::WRITE);
        let data: Rc<[u8]> = pattern(LENGTH, 1).into();
        let id = alpha.endpoint.put(to, region.id(), 0, data.clone()).unwrap();
        until(&mut alpha, &mut beta, "some", |alpha, beta| deposited(alpha, beta) >= segments);
        assert!(alpha.endpoint.cancel(to, id) && alpha.endpoint.cancel(to, id), "it is under way");
        let kinds = [TransferKind::Put, TransferKind::Deposited];
        let from = is_cancelled(&mut alpha, &mut beta, &region, kinds);
        assert_eq!(from > 0, segments > 0, "{from}");
        assert_eq!(Rc::strong_count(&data), 1, "what was lent is free");
        assert!(!alpha.endpoint.cancel(to, id), "it is over");
        let id = alpha.endpoint.put(to, region.id(), 0, data).unwrap();
        until(&mut alpha, &mut beta, "the next one", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
        assert_eq!((only(&alpha).id, only(&alpha).result, only(&beta).result), (id, Ok(()), Ok(())));
    }
}

#[test]
fn a_cancelled_get_ends_at_both_sides() {
    for (faults, segments) in [(Faults::NONE, 500), (bad(3), 500), (bad(4), 1000)] {
        let (mut alpha, mut beta, to) = over(faults);
        let theirs = beta.endpoint.register(pattern(LENGTH, 1), Rights::READ);
        let ours = zeros(&alpha.endpoint, LENGTH, Rights::NONE);
        let id = alpha.endpoint.get(to, theirs.id(), 0, LENGTH as u64, &ours, 0).unwrap();
        until(&mut alpha, &mut beta, "some", |alpha, beta| deposited(alpha, beta) >= segments);
        assert!(alpha.endpoint.cancel(to, id) && alpha.endpoint.cancel(to, id), "it is under way");
        assert!(is_cancelled(&mut alpha, &mut beta, &ours, [TransferKind::Get, TransferKind::Served]) > 0);
        assert!(!alpha.endpoint.cancel(to, id), "it is over");
    }
}

/// The other side may not have heard of it: then it does not begin.
#[test]
fn a_get_that_is_cancelled_at_once_ends() {
    for seed in 0..20 {
        let (mut alpha, mut beta, to) = over(Faults { reorder: 0.5, ..bad(seed) });
        let theirs = beta.endpoint.register(pattern(LENGTH, 1), Rights::READ);
        let ours = zeros(&alpha.endpoint, LENGTH, Rights::NONE);
        let id = alpha.endpoint.get(to, theirs.id(), 0, LENGTH as u64, &ours, 0).unwrap();
        assert!(alpha.endpoint.cancel(to, id));
        until(&mut alpha, &mut beta, "heard", |alpha, _| !alpha.state.is_empty());
        linger(&mut alpha, &mut beta);
        assert!(matches!(only(&alpha).result, Err(TransferError::Cancelled { .. })), "{:?}", alpha.state);
        assert!(beta.state.len() <= 1 && beta.counter("bulk_segments_sent") < 500, "{:?}", beta.state);
    }
}

#[test]
fn what_is_on_its_way_as_a_whole_is_not_cancelled() {
    let (mut alpha, mut beta, to) = listening(connected());
    let region = zeros(&beta.endpoint, 100, Rights::WRITE);
    let id = alpha.endpoint.put(to, region.id(), 0, pattern(100, 1)).unwrap();
    alpha.poll();
    assert!(!alpha.endpoint.cancel(to, id));
    until(&mut alpha, &mut beta, "both heard", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    assert_eq!((only(&alpha).result, only(&beta).result), (Ok(()), Ok(())));
    assert!(!alpha.endpoint.cancel(to, id), "it is over");
}

#[test]
fn nobody_cancels_what_a_peer_asked_for() {
    let (mut alpha, mut beta, to) = listening(connected());
    let region = beta.endpoint.register(pattern(LENGTH, 1), Rights::BOTH);
    let ours = zeros(&alpha.endpoint, LENGTH, Rights::NONE);
    let get = alpha.endpoint.get(to, region.id(), 0, LENGTH as u64, &ours, 0).unwrap();
    let back = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "some", |alpha, beta| deposited(alpha, beta) > 100);
    assert!(!beta.endpoint.cancel(to, get) && !beta.endpoint.cancel(back, get));
    until(&mut alpha, &mut beta, "got", |alpha, _| !alpha.state.is_empty());
    assert_eq!(only(&alpha).result, Ok(()));
}

#[test]
fn a_region_gives_its_memory_back_when_nothing_uses_it() {
    let (mut alpha, mut beta, to) = listening(connected());
    let there = zeros(&beta.endpoint, LENGTH, Rights::BOTH);
    let id = there.id();
    alpha.endpoint.put(to, id, 0, pattern(LENGTH, 1)).unwrap();
    until(&mut alpha, &mut beta, "some", |alpha, beta| deposited(alpha, beta) > 100);
    let (am_api::RegionInUse, there) = there.into_memory().expect_err("it is written");
    until(&mut alpha, &mut beta, "put", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    [&mut alpha, &mut beta].into_iter().for_each(|side| side.state.clear());

    let here = zeros(&alpha.endpoint, LENGTH, Rights::NONE);
    alpha.endpoint.get(to, id, 0, LENGTH as u64, &here, 0).unwrap();
    until(&mut alpha, &mut beta, "some", |alpha, _| alpha.counter("bulk_segments_deposited") > 100);
    let (_, there) = there.into_memory().expect_err("it is read");
    let (_, here) = here.into_memory().expect_err("it is written");
    until(&mut alpha, &mut beta, "got", |alpha, beta| !alpha.state.is_empty() && !beta.state.is_empty());
    (0..10).for_each(|_| _ = (alpha.poll(), beta.poll()));

    let at = there.bytes().as_ptr();
    let memory = there.into_memory().expect("nothing uses it").into_vec();
    assert!(memory == pattern(LENGTH, 1) && here.into_memory().expect("nothing uses it")[..] == memory[..]);
    assert_eq!(memory.as_ptr(), at, "it was not copied");
    alpha.state.clear();
    alpha.endpoint.put(to, id, 0, b"late").unwrap();
    until(&mut alpha, &mut beta, "refused", |alpha, _| !alpha.state.is_empty());
    assert_eq!(only(&alpha).result, Err(TransferError::NoRegion));
}
