//! Lanes: frames through memory that nobody trusts.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use am_ring::lane::{Burst, Duplex, Full, LaneCounters, LaneLayout, Pair, Peeked, Receiver, Sender, Shared};
use am_ring::{Layout, Pool};
use am_wire::Buffer;
use proptest::prelude::*;

pub(crate) const PAIR: Pair = Pair::new(1, 2);

pub(crate) fn lane(longest: usize) -> Option<(Sender, Receiver, Shared)> {
    let shape = LaneLayout::least(longest)?;
    let memory = Shared::heap(shape.bytes());
    let (mut sender, mut receiver) = (Sender::new(memory.clone(), shape), Receiver::new(memory.clone(), shape));
    sender.offer(PAIR);
    assert!(receiver.accept(PAIR));
    Some((sender, receiver, memory))
}

pub(crate) fn take(receiver: &mut Receiver) -> Option<Vec<u8>> {
    let Peeked::Frame(len) = receiver.peek() else { return None };
    let mut frame = vec![0xee; len];
    receiver.take(&mut frame).then_some(frame)
}

pub(crate) fn frame(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize * 31 + at * 7) as u8).collect()
}

#[test]
fn frames_of_every_length_arrive_intact() {
    let (mut sender, mut receiver, _) = lane(3000).unwrap();
    for len in (1..=3000).step_by(if cfg!(miri) { 97 } else { 1 }) {
        sender.push(&frame(len as u64, len)).unwrap();
        sender.publish();
        assert_eq!(take(&mut receiver), Some(frame(len as u64, len)), "{len}");
        assert_eq!(receiver.peek(), Peeked::Nothing);
    }
    assert_eq!(sender.push(&[]), Err(Full));
    assert_eq!(sender.push(&[0; 3001]), Err(Full));
}

#[test]
fn frames_of_one_line_pass_the_ends_of_runs_and_laps() {
    let shape = LaneLayout::least(200).unwrap();
    let memory = Shared::heap(shape.bytes());
    let mut lanes = Duplex::new(memory.clone(), memory, shape);
    lanes.connect(PAIR, PAIR);
    let pool = Pool::heap(Layout { frames: 1, stride: 200, headroom: 0 }).unwrap();
    for first in 0..100 {
        let numbers = first..=first + first % 3;
        numbers.clone().for_each(|number| lanes.to.push(&frame(number, 60)).unwrap());
        lanes.to.publish();
        for number in numbers {
            let received = lanes.next(&mut Burst::default(), &pool, &mut LaneCounters::default());
            assert_eq!(received.map(|received| received.bytes().to_vec()), Some(frame(number, 60)), "{first}");
        }
    }
}

#[test]
fn nothing_is_seen_before_it_is_published_and_then_all_of_it() {
    let (mut sender, mut receiver, _) = lane(100).unwrap();
    (0..4).for_each(|number| sender.push(&frame(number, 60)).unwrap());
    assert_eq!(receiver.peek(), Peeked::Nothing);
    assert!(sender.publish() && !sender.publish());
    for number in 0..4 {
        assert_eq!(take(&mut receiver), Some(frame(number, 60)));
        assert_eq!(receiver.has_more(), number < 3);
    }
}

#[test]
fn a_long_frame_is_seen_at_once_and_publish_still_says_that_there_was_one() {
    let (mut sender, mut receiver, _) = lane(3000).unwrap();
    for len in [60, 3000, 60] {
        sender.push(&frame(1, len)).unwrap();
        assert_eq!(take(&mut receiver).is_some(), len == 3000);
        assert!(sender.publish() && !sender.publish(), "{len}");
        assert_eq!(take(&mut receiver).is_some(), len == 60);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// As a queue: what was published comes out in order, and a full lane has room again when it is emptied.
    #[test]
    fn is_a_queue(steps in proptest::collection::vec((0u8..4, 1usize..400), 1..if cfg!(miri) { 50 } else { 2000 })) {
        let (mut sender, mut receiver, _) = lane(400).unwrap();
        let (mut pushed, mut published) = (VecDeque::new(), VecDeque::new());
        for (number, (step, len)) in steps.into_iter().enumerate() {
            match step {
                0 | 1 => {
                    let frame = frame(number as u64, len);
                    let room = sender.has_room_for(len);
                    prop_assert_eq!(sender.push(&frame).is_ok(), room);
                    if room { pushed.push_back(frame) }
                }
                2 => { sender.publish(); published.append(&mut pushed) }
                _ => prop_assert_eq!(take(&mut receiver), published.pop_front()),
            }
        }
        sender.publish();
        published.append(&mut pushed);
        for frame in published { prop_assert_eq!(take(&mut receiver), Some(frame)) }
        prop_assert_eq!(receiver.peek(), Peeked::Nothing);
        (0..3).for_each(|_| sender.push(&[1; 400]).unwrap());
    }
}

#[test]
fn two_threads_pass_what_is_written_in_order() {
    let (mut sender, mut receiver, _) = lane(1500).unwrap();
    let (many, longest) = if cfg!(miri) { (60, 100) } else { (200_000, 1500) };
    let length = move |number: u64| 1 + (number * 37 % longest) as usize;
    let far = std::thread::spawn(move || {
        for number in 0..many {
            while !sender.has_room_for(length(number)) {
                sender.publish();
                std::thread::yield_now();
            }
            sender.push(&frame(number, length(number))).unwrap();
            if number % 5 == 0 {
                sender.publish();
            }
        }
        sender.publish();
    });
    for number in 0..many {
        let got = loop {
            match take(&mut receiver) {
                Some(got) => break got,
                None => std::thread::yield_now(),
            }
        };
        assert!(got == frame(number, length(number)), "frame {number}");
    }
    far.join().unwrap();
}

#[test]
fn who_comes_anew_starts_from_nothing() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    let shape = LaneLayout::least(100).unwrap();
    for number in 0..5 {
        sender.push(&frame(number, 60)).unwrap();
        sender.publish();
    }
    assert_eq!(take(&mut receiver), Some(frame(0, 60)));
    // The sender dies; another takes its place, and sends more than was read.
    let anew = Pair::new(3, 2);
    let mut sender = Sender::new(memory.clone(), shape);
    sender.offer(anew);
    for number in 10..13 {
        sender.push(&frame(number, 60)).unwrap();
        sender.publish();
    }
    assert_eq!(take(&mut receiver), None);
    assert_eq!(receiver.peek(), Peeked::Closed);
    assert!(!receiver.accept(PAIR), "that one is over");
    assert!(receiver.accept(anew));
    assert_eq!(take(&mut receiver), Some(frame(10, 60)));
    // Now the receiver dies. The sender learns of the new one, and starts again.
    let last = Pair::new(3, 4);
    let mut receiver = Receiver::new(memory, shape);
    assert!(!receiver.accept(last), "not offered yet");
    sender.offer(last);
    assert!(receiver.accept(last));
    assert_eq!(receiver.peek(), Peeked::Nothing);
    sender.push(&frame(20, 99)).unwrap();
    sender.publish();
    assert_eq!(take(&mut receiver), Some(frame(20, 99)));
}

/// Offset of the word of the first record.
const FIRST: usize = 384;
const TAIL: usize = 128;
const ACCEPTED: usize = 256;

/// The word of a record with this length in this lap, as the layout has it.
const fn word(lap: u32, length: u32) -> u32 {
    lap << 26 | length << 1
}

/// The length that leads to the start of the memory.
const SKIP: u32 = (1 << 25) - 1;

#[test]
fn nonsense_is_refused_and_the_sender_begins_again() {
    for lie in [word(0, 101), word(0, 4000), word(0, 1 << 24), word(0, SKIP - 1)] {
        let (mut sender, mut receiver, memory) = lane(100).unwrap();
        sender.push(&frame(1, 60)).unwrap();
        sender.publish();
        memory.word(FIRST).store(lie, Relaxed);
        assert_eq!(receiver.peek(), Peeked::Invalid, "{lie}");
        assert_eq!(receiver.peek(), Peeked::Closed);
        assert!(!receiver.accept(PAIR));
        assert!(sender.needs_offer());
        sender.offer(PAIR);
        assert!(!sender.needs_offer(), "that was announced");
        sender.push(&frame(2, 60)).unwrap();
        sender.publish();
        assert!(receiver.accept(PAIR));
        assert_eq!(take(&mut receiver), Some(frame(2, 60)));
    }
}

#[test]
fn a_skip_that_is_made_up_is_noticed_with_what_is_sent_next() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    memory.word(FIRST).store(word(0, SKIP), Relaxed);
    assert_eq!(receiver.peek(), Peeked::Nothing, "the next lap has not begun");
    for number in 0..2 {
        sender.push(&frame(number, 60)).unwrap();
        sender.publish();
        assert_eq!(take(&mut receiver), None);
        assert_eq!(receiver.has_diverged(), number == 1);
    }
    receiver.refuse();
    assert!(sender.needs_offer());
    sender.offer(PAIR);
    assert!(receiver.accept(PAIR));
    sender.push(&frame(2, 60)).unwrap();
    sender.publish();
    assert_eq!(take(&mut receiver), Some(frame(2, 60)));
}

/// Each line of the lane has a record of the lap before, and none of them is received twice. That includes words of the same lap that
/// stand in the bytes of longer frames.
#[test]
fn a_record_of_another_lap_is_nothing() {
    let (mut sender, mut receiver, _) = lane(400).unwrap();
    // Each line of a long frame begins with the word that the receiver waits for one lap later: bytes 60, 124, … start lines.
    let long = |lap: u32| -> Vec<u8> {
        let mut frame = vec![0; 400];
        (60..400).step_by(64).for_each(|at| frame[at..at + 4].copy_from_slice(&word(lap + 1, 60).to_le_bytes()));
        frame
    };
    let lines = LaneLayout::least(400).unwrap().bytes() as u32 / 64 - 6;
    for number in 0..5000 {
        let frame =
            if number % 150 < 40 && number % 10 == 0 { long(sender.progress().0 / lines) } else { frame(number, 60) };
        sender.push(&frame).unwrap();
        sender.publish();
        assert_eq!(take(&mut receiver), Some(frame));
        assert_eq!(receiver.peek(), Peeked::Nothing, "behind frame {number}");
    }
}

/// The lap of the first record of each session is the same.
#[test]
fn a_record_of_another_session_is_nothing() {
    let (mut sender, mut receiver, _) = lane(100).unwrap();
    (0..5).for_each(|number| sender.push(&frame(number, 60)).unwrap());
    sender.publish();
    while take(&mut receiver).is_some() {}
    sender.offer(PAIR);
    assert!(receiver.accept(PAIR));
    for number in 10..13 {
        sender.push(&frame(number, 60)).unwrap();
        sender.publish();
        assert_eq!(take(&mut receiver), Some(frame(number, 60)));
        assert_eq!(receiver.peek(), Peeked::Nothing);
    }
}

#[test]
fn a_length_that_vanished_is_noticed() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    assert!(!receiver.has_diverged());
    sender.push(&frame(1, 60)).unwrap();
    sender.publish();
    assert!(!receiver.has_diverged(), "it is there");
    memory.word(FIRST).store(0, Relaxed);
    assert!(receiver.has_diverged());
    // Our own word is looked after too.
    assert!(!sender.needs_offer());
    memory.word(0).store(77, Relaxed);
    assert!(sender.needs_offer());
}

#[test]
fn a_refusal_that_vanished_is_said_again() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    receiver.refuse();
    memory.word(ACCEPTED).store(77, Relaxed);
    assert!(!sender.needs_offer(), "so it goes on");
    assert!(!receiver.has_diverged());
    assert!(sender.needs_offer());
    sender.offer(PAIR);
    assert!(receiver.accept(PAIR));
    sender.push(&frame(1, 60)).unwrap();
    sender.publish();
    assert_eq!(take(&mut receiver), Some(frame(1, 60)));
}

/// A length that is made up sends the receiver beyond the place that the sender writes next.
#[test]
fn to_be_sent_too_far_is_noticed_with_what_is_sent_next() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    sender.push(&frame(1, 60)).unwrap();
    sender.publish();
    memory.word(FIRST).store(word(0, 100), Relaxed);
    assert!(take(&mut receiver).is_some());
    assert!(!receiver.has_diverged() && !receiver.has_diverged(), "the tail may show later than the length");
    sender.push(&frame(2, 60)).unwrap();
    sender.publish();
    assert!(!receiver.has_diverged(), "here both are at one place again");
    sender.push(&frame(3, 60)).unwrap();
    sender.publish();
    assert_eq!(take(&mut receiver), Some(frame(3, 60)));
    // Further.
    memory.word(FIRST + 3 * 64).store(word(0, 100), Relaxed);
    memory.word(FIRST + 5 * 64).store(word(0, 100), Relaxed);
    while take(&mut receiver).is_some() {}
    assert!(!receiver.has_diverged());
    sender.push(&frame(4, 60)).unwrap();
    sender.publish();
    while take(&mut receiver).is_some() {}
    assert!(receiver.has_diverged());
}

/// Between the stores of a length and of the tail the sender may be kept for as long as the system likes.
#[test]
fn a_tail_that_shows_late_is_no_contradiction() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    for number in 0..100 {
        let before = memory.word(TAIL).load(Relaxed);
        sender.push(&frame(number, 60)).unwrap();
        sender.publish();
        let tail = memory.word(TAIL).swap(before, Relaxed);
        assert_eq!(take(&mut receiver), Some(frame(number, 60)));
        assert!(!receiver.has_diverged() && !receiver.has_diverged());
        memory.word(TAIL).store(tail, Relaxed);
        assert!(!receiver.has_diverged(), "{number}");
    }
}

#[test]
fn credit_that_cannot_be_is_not_taken() {
    let (mut sender, mut receiver, memory) = lane(100).unwrap();
    while sender.push(&[7; 100]).is_ok() {}
    sender.publish();
    for lie in [u32::MAX, 1 << 20] {
        memory.word(260).store(lie, Relaxed);
        assert_eq!(sender.push(&[8; 100]), Err(Full));
        assert!(!sender.made_room());
    }
    memory.word(260).store(0, Relaxed);
    while take(&mut receiver).is_some() {}
    assert!(sender.made_room());
    sender.push(&[8; 100]).unwrap();
}

/// Write words anywhere, half of them near the start.
fn lie(memory: &Shared, words: usize, done: &AtomicBool) {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    while !done.load(Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 40) as usize % if state & 1 == 0 { words } else { 120 };
        memory.word(at * 4).store((state >> 8) as u32, Relaxed);
        std::thread::yield_now();
    }
}

/// Somebody writes over everything while two threads use it: frames may be lost and be wrong, and nothing else happens.
#[test]
fn a_liar_costs_frames_and_nothing_else() {
    let (mut sender, mut receiver, memory) = lane(1500).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let words = LaneLayout::least(1500).unwrap().bytes() / 4;
    let rounds = if cfg!(miri) { 100 } else { 300_000 };
    let liar = std::thread::spawn({
        let (memory, done) = (memory.clone(), done.clone());
        move || lie(&memory, words, &done)
    });
    let writer = std::thread::spawn({
        let done = done.clone();
        move || {
            for number in 0..rounds {
                let _ = sender.push(&frame(number, 1 + number as usize % 1500));
                sender.publish();
                if sender.needs_offer() || number % 1000 == 0 {
                    sender.offer(PAIR);
                }
            }
            done.store(true, Relaxed);
        }
    });
    let mut into = vec![0; 1500];
    while !done.load(Relaxed) {
        match receiver.peek() {
            Peeked::Frame(len) => drop(receiver.take(&mut into[..len])),
            Peeked::Closed => drop(receiver.accept(PAIR)),
            _ => drop(receiver.has_diverged()),
        }
    }
    writer.join().unwrap();
    liar.join().unwrap();
}

#[test]
#[should_panic(expected = "beyond the end")]
fn a_part_stays_within() {
    Shared::heap(1024).part(512, 1024);
}
