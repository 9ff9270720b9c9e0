//! The calls of a turn, recorded by a transport.

use std::time::Duration;

use crate::host::{Call, Host, MS, connected, exchange, extracted};
use am_engine::{BURST, PollScope};
use am_proto::{Event, FlowState, Time};
use am_transport::Transport;
use am_wire::control::Name;

#[test]
fn a_turn_has_one_doorbell_and_it_comes_last() {
    let (mut alpha, _, flow, now) = connected();
    (0..5).for_each(|n| alpha.request(flow, n));
    let turn = alpha.turn(now);
    assert_eq!(turn.sent, 5);
    assert_eq!(alpha.notes.calls.iter().filter(|call| **call == Call::Flush).count(), 1);
    assert_eq!(alpha.notes.calls.last(), Some(&Call::Flush));
}

#[test]
fn an_idle_turn_rings_too() {
    let (mut alpha, _, _, now) = connected();
    alpha.turn(now);
    assert!(alpha.turn(now).is_idle());
    assert_eq!(alpha.notes.calls, [Call::Receive(0), Call::Flush]);
}

#[test]
fn a_frame_sent_early_leaves_with_the_next_doorbell() {
    let (mut alpha, _, flow, now) = connected();
    alpha.turn(now);
    alpha.notes.calls.clear();
    for n in 0..3 {
        alpha.request(flow, n);
        alpha.engine.send_early(&mut alpha.notes);
    }
    assert!(alpha.engine.sleep_until() <= now, "the doorbell is due");
    assert_eq!(alpha.notes.calls, [Call::Send; 3]);
    assert_eq!(alpha.turn(now).sent, 3);
    assert_eq!(alpha.notes.calls, [Call::Receive(0), Call::Flush]);
    assert!(alpha.engine.sleep_until() < now + Duration::from_millis(1), "a time-out is armed");
}

#[test]
fn a_frame_sent_early_does_not_overtake_a_refused_one() {
    let (mut alpha, mut beta, flow, now) = connected();
    alpha.turn(now);
    alpha.notes.room = 0;
    (0..3).for_each(|n| {
        alpha.request(flow, n);
        alpha.engine.send_early(&mut alpha.notes);
    });
    assert_eq!(alpha.turn(now).sent, 0);
    alpha.notes.room = usize::MAX;
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    assert_eq!(extracted(&mut beta), [0, 1, 2]);
}

#[test]
fn what_a_full_transport_gives_back_goes_first_and_nothing_is_lost() {
    let (mut alpha, mut beta, flow, now) = connected();
    alpha.turn(now);
    (0..10).for_each(|n| alpha.request(flow, n));
    for room in [3, 0, 2, 5] {
        alpha.notes.room = room;
        assert_eq!(alpha.turn(now).sent, room);
        assert!(room == 0 || alpha.engine.sleep_until() <= now, "deferred work is left");
        assert_eq!(alpha.turn(now).sent, 0);
        let tries_again = now + alpha.notes.room_within();
        assert_eq!(alpha.engine.sleep_until() <= tries_again, room < 5, "full: it is tried again");
        assert!(alpha.engine.sleep_until() > now, "the node may sleep until then");
    }
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    assert_eq!(extracted(&mut beta), (0..10).collect::<Vec<_>>());
}

#[test]
fn bursts_are_bounded_in_both_directions() {
    let (mut alpha, mut beta, flow, now) = connected();
    (0..2 * BURST as u64).for_each(|n| alpha.request(flow, n));
    assert_eq!(alpha.turn(now).sent, BURST);
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    assert_eq!(beta.turn(now).received, BURST);
    assert_eq!(beta.turn(now).received, BURST);
    assert_eq!(extracted(&mut beta).len(), 2 * BURST);
}

/// A busy application releases a message in a turn that received none. No frame may ever cause another turn, and the
/// sender waits for credit, so the credit must be due soon.
#[test]
fn credit_released_in_an_idle_turn_is_advertised_soon() {
    let (mut alpha, mut beta, flow, now) = connected();
    alpha.request(flow, 1);
    alpha.turn(now);
    beta.notes.take_from(&mut alpha.notes);
    beta.turn(now);
    let later = now + Duration::from_millis(10);
    (0..10).for_each(|_| _ = beta.turn(later));
    beta.engine.inhale(PollScope::Everything, || later, &mut beta.notes);
    let request = beta.engine.core_mut().poll_deliver(beta.endpoint).unwrap();
    beta.engine.core_mut().decline_reply(request.flow);
    beta.engine.core_mut().release(request.flow, request.class, 1);
    beta.engine.exhale(|| later, &mut beta.notes);
    assert!(beta.engine.sleep_until() < later + Duration::from_millis(1), "the advertisement of credit is due");
}

#[test]
fn a_flow_is_steered_before_the_peer_hears_of_it() {
    let (mut alpha, mut beta) = (Host::new(1, "alpha"), Host::new(2, "beta"));
    exchange(&mut alpha, &mut beta, Time(0));
    let name = |text| Name::new(text).unwrap();
    let (core, from) = (alpha.engine.core_mut(), alpha.endpoint);
    let flow = core.connect(Time(MS), from, (name("beta"), name("main"), 0), true).unwrap();
    alpha.turn(Time(MS));
    let steered = alpha.notes.calls.iter().position(|call| *call == Call::Steer(flow.flow(), true));
    let sent = alpha.notes.calls.iter().position(|call| *call == Call::Send);
    assert!(steered.expect("steered") < sent.expect("sent"), "{:?}", alpha.notes.calls);
}

#[test]
fn due_timers_run_in_a_turn() {
    let (mut alpha, ..) = connected();
    let due = alpha.engine.core().config().beacon;
    let before = alpha.engine.core().counters().control_sent;
    let turn = alpha.turn(Time(0) + due + Duration::from_secs(1));
    assert_eq!(turn.sent, 2, "a beacon, and a keepalive of the quiet flow");
    assert_eq!(alpha.engine.core().counters().control_sent, before + 2);
}

#[test]
fn a_shutdown_reaches_the_peer_at_once() {
    let (mut alpha, mut beta, flow, now) = connected();
    beta.engine.shut_down(|| now, &mut beta.notes);
    alpha.notes.take_from(&mut beta.notes);
    alpha.turn(now);
    assert_eq!(alpha.engine.core().state(flow), FlowState::Ended(am_proto::ReturnReason::Closed));
    assert!(matches!(alpha.events.last(), Some(Event::Ended(_, ended, _)) if *ended == flow), "{:?}", alpha.events);
}
