//! Loopback: a wire in memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use crate::ends::{are_all_frames_free, counter, ends, flow, number, numbered, receive, send, unknown_flow_frame};
use am_transport::loopback::{Loopback, LoopbackOptions, Plug, wire, wire_with};
use am_transport::{Transport, TransportExt};
use am_wire::{Address, Buffer};

const SMALL: LoopbackOptions = LoopbackOptions { queue: 4, frames: 64, ..DEFAULT };
const DEFAULT: LoopbackOptions =
    LoopbackOptions { frames: 4096, max_frame: 1514, queue: 512, ethertype: am_wire::EtherType::DEFAULT };

fn address(end: &Loopback) -> Address {
    end.caps().address
}

#[test]
fn the_frame_that_arrives_is_the_frame_that_was_sent() {
    let [mut left, mut right] = ends(DEFAULT);
    let sent = numbered(&left, address(&right), 1);
    let kept = sent.share();
    assert!(left.send(address(&right), &sent), "room");
    left.flush();
    let mut arrived = None;
    right.receive(1, &mut |frame| arrived = Some(frame));
    let arrived = arrived.unwrap();
    assert_eq!(arrived.bytes().as_ptr(), kept.bytes().as_ptr(), "not a copy");
    assert!(left.caps().pool.owns(&arrived));
    drop((sent, kept));
    assert!(arrived.is_unique());
    drop(arrived);
    assert!(are_all_frames_free(&left) && are_all_frames_free(&right));
}

#[test]
fn nothing_is_seen_before_the_doorbell() {
    let [mut left, mut right] = ends(DEFAULT);
    let frame = numbered(&left, address(&right), 1);
    assert!(left.send(address(&right), &frame), "room");
    assert_eq!(receive(&mut right), [0; 0]);
    left.flush();
    assert_eq!(receive(&mut right), [1]);
}

#[test]
fn a_full_queue_leaves_the_frame_alone() {
    let [mut left, mut right] = ends(SMALL);
    let to = address(&right);
    send(&mut left, to, 0..4);
    let fifth = numbered(&left, to, 4);
    assert!(!left.send(to, &fifth), "full");
    assert_eq!((number(&fifth), counter(&left, "loopback_full")), (4, 1));
    assert_eq!(receive(&mut right), [0, 1, 2, 3]);
    assert!(left.send(to, &fifth), "room");
    left.flush();
    assert_eq!(receive(&mut right), [4]);
}

#[test]
fn three_ends_are_a_hub_that_knows_its_addresses() {
    let [mut a, mut b, mut c] = ends(DEFAULT);
    let (to_a, to_b) = (address(&a), address(&b));
    send(&mut a, to_b, [1]);
    send(&mut c, to_b, [2]);
    send(&mut b, to_a, [3]);
    assert_eq!(receive(&mut b), [1, 2]);
    assert_eq!(receive(&mut a), [3]);
    assert_eq!(receive(&mut c), [0; 0]);
    assert_eq!(counter(&c, "steer_pass_other_host"), 0, "the frame was not flooded");
}

#[test]
fn unknown_addresses_are_flooded() {
    let [mut a, mut b, mut c] = ends(DEFAULT);
    let nobody = Address([2, 0, 0, 0, 0xff, 0xff]);
    send(&mut a, Address::BROADCAST, [1, 2]);
    send(&mut a, nobody, [3]);
    for end in [&mut b, &mut c] {
        assert_eq!(receive(end), [1, 2]);
        assert_eq!(counter(end, "steer_pass_other_host"), 1, "the frame was flooded, and steering passed it");
    }
    assert_eq!(receive(&mut a), [0; 0]);
    assert!(are_all_frames_free(&a));
}

#[test]
fn a_broadcast_goes_to_all_or_to_none() {
    let [mut a, b, c] = ends(SMALL);
    let mut others = [b, c];
    for full in [0, 1] {
        let to = address(&others[full]);
        send(&mut a, to, 0..4);
        let frame = numbered(&a, Address::BROADCAST, 9);
        assert!(!a.send(Address::BROADCAST, &frame), "full");
        a.flush();
        assert!(frame.is_unique(), "no end has it");
        assert_eq!(receive(&mut others[1 - full]), [0; 0]);
        assert_eq!(receive(&mut others[full]), [0, 1, 2, 3]);
        assert!(a.send(Address::BROADCAST, &frame), "room");
        a.flush();
        assert_eq!(others.each_mut().map(|end| receive(end)), [[9], [9]]);
    }
}

#[test]
fn frames_to_a_closed_end_are_lost_and_freed() {
    let [mut a, b, mut c] = ends(SMALL);
    let to_b = address(&b);
    send(&mut a, to_b, 0..4);
    assert!(!are_all_frames_free(&a));
    drop(b);
    assert!(are_all_frames_free(&a), "what was in its queue is home");
    send(&mut a, to_b, 0..10);
    assert_eq!(counter(&a, "loopback_lost_unplugged"), 10);
    send(&mut a, Address::BROADCAST, [5]);
    assert_eq!(receive(&mut c), [5], "the others get it");
    assert!(are_all_frames_free(&a));
}

#[test]
fn an_end_that_left_can_be_opened_again() {
    let [a, b]: [Plug; 2] = wire(2).try_into().unwrap();
    let (mut a, to_b, mut plug) = (a.open().unwrap(), b.address(), Some(b));
    a.steer(flow(), true);
    for round in 0..5 {
        let home = Rc::new(RefCell::new(None));
        let keep = home.clone();
        let mut b = plug.take().unwrap().open_with(move |plug| _ = keep.borrow_mut().replace(plug)).unwrap();
        b.steer(flow(), true);
        assert_eq!(receive(&mut b), [0; 0], "nothing from before");
        send(&mut a, to_b, [round, round + 100]);
        send(&mut b, address(&a), [round]);
        assert_eq!((receive(&mut a), b.receive(1, &mut |frame| assert_eq!(number(&frame), round))), (vec![round], 1));
        send(&mut b, address(&a), [round + 1]);
        // It goes without a doorbell.
        drop(b);
        assert_eq!(receive(&mut a), [round + 1], "what was sent before the end left");
        send(&mut a, to_b, 0..1000);
        send(&mut a, Address::BROADCAST, [7]);
        assert_eq!(counter(&a, "loopback_lost_unplugged"), 1001 * (u64::from(round) + 1));
        assert!(are_all_frames_free(&a), "lost, and freed");
        plug = home.borrow_mut().take();
    }
}

#[test]
fn an_end_that_cannot_be_opened_goes_home() {
    let impossible = LoopbackOptions { frames: 0, ..SMALL };
    let [plug, _] = wire_with(2, impossible).try_into().unwrap();
    let home = Rc::new(Cell::new(false));
    let is_home = home.clone();
    assert!(plug.open_with(move |_| is_home.set(true)).is_err());
    assert!(home.get());
}

#[test]
fn dropped_frames_do_not_count_against_the_budget() {
    let [mut left, mut right] = ends(DEFAULT);
    let to = address(&right);
    for _ in 0..100 {
        let frame = unknown_flow_frame(&left, to);
        assert!(left.send(to, &frame), "room");
    }
    send(&mut left, to, [1]);
    let mut arrived = vec![];
    assert_eq!(right.receive(1, &mut |frame| arrived.push(number(&frame))), 1);
    assert_eq!(arrived, [1]);
    assert_eq!(counter(&right, "steer_drop_unknown_flow"), 100);
    assert!([(); 2].map(|()| right.unknown_flow().is_some()) == [true, false], "their flow is reported once");
    assert_eq!((counter(&left, "loopback_sent"), counter(&right, "loopback_received")), (101, 1));
}

#[test]
fn a_busy_end_does_not_starve_another() {
    let [mut a, mut b, mut c] = ends(DEFAULT);
    let to_b = address(&b);
    send(&mut a, to_b, 0..100);
    send(&mut c, to_b, [1000]);
    let mut arrived = vec![];
    for _ in 0..4 {
        b.receive(1, &mut |frame| arrived.push(number(&frame)));
    }
    assert!(arrived.contains(&1000), "{arrived:?}");
}

#[test]
fn jumbo_frames_pass_and_longer_ones_are_lost_and_counted() {
    let [mut left, mut right] = ends(LoopbackOptions { max_frame: 9014, frames: 16, ..DEFAULT });
    let to = address(&right);
    for length in [9014, 9015] {
        let mut frame = numbered(&left, to, 1);
        frame.set_len(length);
        assert_eq!(frame.bytes().len(), length, "the pool has room for both");
        frame.space().unwrap()[6..12].copy_from_slice(&[0; 6]);
        frame.space().unwrap()[12..14].copy_from_slice(&[0; 2]);
        assert!(left.send(to, &frame), "room");
    }
    left.flush();
    receive(&mut right);
    assert_eq!(counter(&right, "steer_pass_foreign"), 1);
    assert_eq!(counter(&left, "loopback_lost_too_long"), 1);
}

#[test]
fn a_wire_has_two_ends_at_least() {
    assert_eq!([0, 1, 2, 5].map(|ends| wire(ends).len()), [2, 2, 2, 5]);
}

/// Send this many numbered frames, and receive as many in order, on this thread.
fn chat(plug: Plug, to: Address, frames: u32) {
    let mut end = plug.open().unwrap();
    end.steer(flow(), true);
    let (mut sent, mut heard) = (0, 0);
    let mut held = None;
    while sent < frames || heard < frames {
        end.receive(64, &mut |frame| {
            assert_eq!(number(&frame), heard);
            heard += 1;
        });
        while sent < frames && held.is_none() && end.caps().pool.available() > 0 {
            let frame = numbered(&end, to, sent);
            held = (!end.send(to, &frame)).then_some(frame);
            sent += held.is_none() as u32;
        }
        if let Some(frame) = held.take() {
            held = (!end.send(to, &frame)).then_some(frame);
            sent += held.is_none() as u32;
        }
        end.flush();
        thread::yield_now();
    }
    // Sent frames may still be on their way, so wait for them before closing.
    while !are_all_frames_free(&end) {
        thread::yield_now();
    }
}

#[test]
fn two_threads_talk_both_ways_and_every_frame_comes_home() {
    const FRAMES: u32 = 200_000;
    let [left, right] = <[Plug; 2]>::try_from(am_transport::loopback::wire_with(2, SMALL)).unwrap();
    let (to_left, to_right) = (left.address(), right.address());
    let (done, wait) = mpsc::channel();
    for (plug, to) in [(left, to_right), (right, to_left)] {
        let done = done.clone();
        thread::spawn(move || {
            chat(plug, to, FRAMES);
            done.send(()).unwrap();
        });
    }
    drop(done);
    assert_eq!(wait.iter().count(), 2, "a thread panicked");
}
