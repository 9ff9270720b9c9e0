//! A turn reads the clock late, and that has no consequences.

use std::time::Duration;

use crate::host::{Host, MS, connected, connected_to, extracted};
use am_engine::PollScope;
use am_proto::{Event, FlowId, FlowState, Time};
use am_ring::Frame;
use am_wire::Class;

/// The other end's id of the flow.
fn accepted(host: &Host) -> FlowId {
    let flow =
        host.events.iter().find_map(|event| if let Event::Accepted(_, flow, _) = event { Some(*flow) } else { None });
    flow.expect("a flow was accepted")
}

fn inhale(host: &mut Host, now: Time) -> usize {
    host.engine.inhale(PollScope::Everything, || now, &mut host.notes)
}

fn exhale(host: &mut Host, now: Time) -> usize {
    let events = &mut host.events;
    events.extend(std::iter::from_fn(|| host.engine.core_mut().poll_event()));
    host.engine.exhale(|| now, &mut host.notes)
}

fn later(now: Time, microseconds: u64) -> Time {
    now + Duration::from_micros(microseconds)
}

#[test]
fn a_handler_that_takes_long_is_no_reason_to_send_again() {
    let (mut alpha, mut beta, flow, now) = connected();
    alpha.request(flow, 1);
    alpha.turn(now);
    let back = accepted(&beta);
    beta.request(back, 2);
    beta.turn(now);
    alpha.notes.take_from(&mut beta.notes);
    beta.notes.take_from(&mut alpha.notes);
    // The handler of 2 takes 5 ms and sends. Meanwhile the acknowledgement of 1 arrives.
    assert_eq!(inhale(&mut alpha, now), 1);
    extracted(&mut alpha);
    beta.turn(later(now, 100));
    beta.turn(later(now, 200));
    beta.turn(later(now, 300));
    alpha.notes.take_from(&mut beta.notes);
    alpha.request(flow, 3);
    exhale(&mut alpha, later(now, 5000));
    alpha.turn(later(now, 5001));
    let counters = alpha.engine.core().counters();
    assert_eq!((counters.timeouts, counters.retransmitted), (0, 0));
}

#[test]
fn a_message_sent_after_the_clock_was_read_arms_a_timeout() {
    let (mut alpha, _beta, flow, now) = connected();
    assert_eq!(inhale(&mut alpha, now), 0);
    alpha.request(flow, 1);
    assert_eq!(exhale(&mut alpha, now), 1);
    assert!(alpha.engine.sleep_until() < later(now, 1000), "a sleeping thread must wake up to send it again");
}

/// Send `count` requests, each as soon as the one before is answered, over a path of 1 ms in each direction. `beta` has
/// the window `window`.
fn rounds(window: u16, count: u64) -> Host {
    let (mut alpha, mut beta, flow, mut now) = connected_to(|config| config.window = window);
    alpha.request(flow, 0);
    exhale(&mut alpha, now);
    for number in 1..=count {
        for _ in 0..4 {
            now = later(now, 250);
            alpha.turn(now);
        }
        beta.notes.take_from(&mut alpha.notes);
        inhale(&mut beta, now);
        answer(&mut beta);
        exhale(&mut beta, now);
        for _ in 0..3 {
            now = later(now, 250);
            alpha.turn(now);
        }
        now = later(now, 250);
        alpha.notes.take_from(&mut beta.notes);
        inhale(&mut alpha, now);
        assert_eq!(extracted(&mut alpha).len(), 1, "round {number}");
        alpha.engine.core_mut().release(flow, Class::Reply, 1);
        alpha.request(flow, number);
        exhale(&mut alpha, now);
    }
    alpha
}

fn answer(host: &mut Host) {
    let endpoint = host.endpoint;
    while let Some(request) = host.engine.core_mut().poll_deliver(endpoint) {
        let frame: Frame = host.notes.caps.pool.take().expect("a frame");
        let sent = host.engine.core_mut().send(request.flow, Class::Reply, 0, 0, frame, 0, |_| ());
        sent.expect("a reply is always admitted");
        host.engine.core_mut().release(request.flow, Class::Request, 1);
    }
}

#[test]
fn a_long_round_trip_is_learned_despite_retransmissions() {
    let early = rounds(16, 20).engine.core().counters().retransmitted;
    assert_eq!(rounds(16, 200).engine.core().counters().retransmitted, early);
}

#[test]
fn early_credit_does_not_shorten_the_estimate() {
    let early = rounds(1, 20).engine.core().counters().retransmitted;
    assert_eq!(rounds(1, 200).engine.core().counters().retransmitted, early);
}

/// The peer is alive. But a message that never arrives is given up after this node's patience, 1.5 s.
#[test]
fn a_peer_that_only_repeats_itself_is_waited_for_as_one_that_is_silent() {
    let (mut alpha, mut beta, flow, now) = connected_to(|config| config.patience = Duration::from_secs(60));
    let back = accepted(&beta);
    beta.request(back, 1);
    alpha.request(flow, 2);
    // No frame of alpha arrives, so beta sends the same message again and again.
    for step in 0..4000 {
        let is_open = matches!(alpha.engine.core().state(flow), FlowState::Open { .. });
        assert!(is_open || step > 1500, "given up after {step} ms");
        alpha.turn(Time(now.0 + step * MS));
        alpha.notes.sent.clear();
        beta.turn(Time(now.0 + step * MS));
        alpha.notes.take_from(&mut beta.notes);
    }
    assert!(alpha.engine.core().counters().duplicates > 10);
    assert!(matches!(alpha.engine.core().state(flow), FlowState::Ended(_)));
}

#[test]
fn time_outs_come_under_a_flood_and_with_a_full_transport() {
    let (mut alpha, mut beta, flow, now) = connected();
    let back = accepted(&beta);
    alpha.request(flow, 1);
    alpha.turn(now);
    alpha.notes.sent.clear();
    // A frame arrives in every turn. None is handled, and none is sent.
    for number in 1..100 {
        beta.request(back, number);
        beta.turn(now);
        alpha.notes.take_from(&mut beta.notes);
        alpha.turn(later(now, 20 * number));
    }
    assert!(alpha.engine.core().counters().retransmitted >= 1);
    assert!(alpha.engine.core().counters().acks_sent >= 1);
    alpha.notes.room = 0;
    let before = alpha.engine.core().counters().timeouts;
    (0..100).for_each(|step| _ = alpha.turn(Time(now.0 + 10 * MS + step * MS)));
    assert!(alpha.engine.core().counters().timeouts > before);
}
