//! Calls that do not wait allocate nothing.

use std::pin::pin;
use std::task::{Context as PollContext, Poll, Waker};

use am_rpc::{CallError, Rpc};

use crate::common::{drive, pair, served, served_by, turn};

#[test]
fn calls_inline_and_ready_at_once_allocate_nothing() {
    let (mut sides, store, _) = served();
    drive(&mut sides, store.nothing()).unwrap();
    drive(&mut sides, store.double(1)).unwrap();
    // What grows with use has grown.
    for number in 0..200 {
        drive(&mut sides, store.nothing()).unwrap();
        assert_eq!(drive(&mut sides, store.double(number)), Ok(2 * number));
        drive(&mut sides, store.checked_label(true)).unwrap();
    }
    let counted = allocation_counter::measure(|| {
        for number in 0..100 {
            drive(&mut sides, store.nothing()).unwrap();
            assert_eq!(drive(&mut sides, store.double(number)), Ok(2 * number));
            assert_eq!(drive(&mut sides, store.checked_label(true)).unwrap().get(), Some("label"));
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

/// Calls that are dropped at every moment: nothing is left of them, on both sides.
#[test]
fn cancelled_calls_leave_nothing() {
    let (mut sides, store, shelf) = served();
    drive(&mut sides, store.nothing()).unwrap();
    let begin = |number: u32| {
        let waits = pin!(store.wait_for("never"));
        (number, waits.poll(&mut PollContext::from_waker(Waker::noop())).is_pending())
    };
    let most = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let (mut number, mut refused) = (0, 0);
    let mut round = |sides: &mut [crate::common::Side], count: u32| {
        for _ in 0..count {
            let (_, is_begun) = begin(number);
            refused += u32::from(!is_begun);
            number += 1;
            (0..number % 4).for_each(|_| turn(sides));
        }
    };
    round(&mut sides, most / 4);
    let left = |sides: &[crate::common::Side]| sides.iter().map(|side| side.rpc.under_way()).sum::<usize>();
    crate::common::until(&mut sides, "nothing is left", |sides| left(sides) == 0);
    let counted = allocation_counter::measure(|| {
        round(&mut sides, most);
        crate::common::until(&mut sides, "nothing is left", |sides| left(sides) == 0);
        shelf.cancelled.lock().unwrap().clear();
        shelf.cancelled.lock().unwrap().shrink_to_fit();
    });
    assert!(counted.bytes_current < 1 << 16, "{counted:?}");
    assert_eq!(drive(&mut sides, store.double(2)), Ok(4));
}

/// Of a flood of calls that wait so many run, and inline calls go on.
#[test]
fn a_flood_of_calls_that_wait_leaves_room_for_others() {
    let (mut sides, store, _) = served_by(pair());
    drive(&mut sides, store.nothing()).unwrap();
    let flood: Vec<_> = (0..3 * am_rpc::MAX_TASKS).map(|_| store.wait_for("never")).collect();
    assert_eq!(drive(&mut sides, store.put("color", b"red")), Ok(0));
    let mut busy = 0;
    for call in flood {
        let mut call = pin!(call);
        if let Poll::Ready(outcome) = call.as_mut().poll(&mut PollContext::from_waker(Waker::noop())) {
            assert_eq!(outcome, Err(CallError::Busy));
            busy += 1;
        }
    }
    assert_eq!(busy, 2 * am_rpc::MAX_TASKS);
    crate::common::until(&mut sides, "nothing is left", |sides| {
        sides.iter().map(|side| &side.rpc).map(Rpc::under_way).sum::<usize>() == 0
    });
}
