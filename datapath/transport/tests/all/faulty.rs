//! The faulty transport.

use std::collections::BTreeSet;

use crate::ends::{are_all_frames_free, counter, ends, number, numbered, receive, send};
use am_ring::Frame;
use am_transport::Transport;
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback::{Loopback, LoopbackOptions};
use am_wire::{Address, Buffer};
use proptest::prelude::*;

const NONE: Faults = Faults::NONE;

/// A faulty end, and the end that receives.
fn link(faults: Faults, options: LoopbackOptions) -> (Faulty<Loopback>, Loopback, Address) {
    let [near, far] = ends(options);
    let to = far.caps().address;
    (Faulty::new(near, faults), far, to)
}

/// Send this many frames, a turn for each, and turn a few more times. Returns the numbers that arrive.
fn arrivals(faults: Faults, frames: u32) -> Vec<u32> {
    let (mut near, mut far, to) = link(faults, LoopbackOptions::default());
    let mut arrived = vec![];
    for n in 0..frames {
        send(&mut near, to, [n]);
        arrived.extend(receive(&mut far));
    }
    arrived.extend(settle(&mut near, &mut far));
    assert!(are_all_frames_free(&near));
    arrived
}

/// Turn until no frame waits.
fn settle(near: &mut Faulty<Loopback>, far: &mut Loopback) -> Vec<u32> {
    let mut arrived = vec![];
    for _ in 0..20 {
        near.flush();
        arrived.extend(receive(far));
    }
    arrived
}

fn once(numbers: &[u32]) -> BTreeSet<u32> {
    numbers.iter().copied().collect()
}

#[test]
fn without_faults_everything_arrives_in_order() {
    assert!(arrivals(NONE, 1000).into_iter().eq(0..1000));
}

#[test]
fn the_same_seed_does_the_same_again() {
    let faults = |seed| Faults { corrupt: 0.1, delay: 0.1, ..Faults::lossy(seed, 0.1) };
    assert_eq!(arrivals(faults(1), 2000), arrivals(faults(1), 2000));
    assert_ne!(arrivals(faults(1), 2000), arrivals(faults(2), 2000));
    assert_ne!(arrivals(faults(0), 2000), arrivals(faults(1), 2000));
}

#[test]
fn faults_strike_with_their_probability() {
    let arrived = arrivals(Faults { seed: 3, drop: 0.05, ..NONE }, 100_000);
    assert!((94_500..=95_500).contains(&arrived.len()), "{} of 95,000", arrived.len());
    let arrived = arrivals(Faults { seed: 3, duplicate: 0.05, ..NONE }, 100_000);
    assert!((104_500..=105_500).contains(&arrived.len()), "{} of 105,000", arrived.len());
}

#[test]
fn one_fault_does_not_move_another() {
    let drop = Faults { seed: 5, drop: 0.2, ..NONE };
    let both = Faults { duplicate: 0.5, reorder: 0.5, ..drop };
    assert_eq!(once(&arrivals(drop, 1000)), once(&arrivals(both, 1000)));
}

#[test]
fn everything_can_be_dropped() {
    let (mut near, mut far, to) = link(Faults { drop: 1.0, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, 0..100);
    assert_eq!(settle(&mut near, &mut far), [0; 0]);
    assert_eq!((counter(&near, "faulty_dropped"), counter(&near, "loopback_sent")), (100, 0));
    assert!(are_all_frames_free(&near));
}

#[test]
fn a_duplicate_is_a_frame_of_its_own_behind_the_first() {
    let (mut near, mut far, to) = link(Faults { duplicate: 1.0, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, [1, 2]);
    let mut arrived: Vec<Frame> = vec![];
    far.receive(10, &mut |frame| arrived.push(frame));
    assert_eq!(arrived.iter().map(number).collect::<Vec<_>>(), [1, 1, 2, 2]);
    assert!(arrived.iter().all(Frame::is_unique), "as a NIC would deliver them");
    assert_eq!(arrived[0].bytes(), arrived[1].bytes());
    assert_eq!(counter(&near, "faulty_duplicated"), 2);
}

#[test]
fn reordered_frames_are_overtaken_by_as_many_as_was_asked() {
    let faults = Faults { seed: 9, reorder: 0.3, reorder_by: 3, delay_by: 1000, ..NONE };
    let (mut near, mut far, to) = link(faults, LoopbackOptions::default());
    send(&mut near, to, 0..500);
    let arrived = receive(&mut far);
    assert!(!arrived.is_sorted());
    let mut most = 0;
    for (at, n) in arrived.iter().enumerate() {
        let overtaken_by = arrived[..at].iter().filter(|earlier| *earlier > n).count();
        most = most.max(overtaken_by);
    }
    assert_eq!(most, 3);
}

#[test]
fn a_reordered_frame_is_not_lost_when_nothing_follows() {
    let (mut near, mut far, to) = link(Faults { reorder: 1.0, delay_by: 3, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, [7]);
    assert_eq!(receive(&mut far), [0; 0]);
    assert_eq!(settle(&mut near, &mut far), [7]);
    assert_eq!(counter(&near, "faulty_reordered"), 1);
}

#[test]
fn delayed_frames_wait_for_turns() {
    let (mut near, mut far, to) = link(Faults { seed: 1, delay: 1.0, delay_by: 5, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, 0..20);
    let mut by_turn = vec![receive(&mut far).len()];
    for _ in 1..5 {
        near.flush();
        by_turn.push(receive(&mut far).len());
    }
    assert_eq!(by_turn.iter().sum::<usize>(), 20, "all of them after five turns: {by_turn:?}");
    assert!(by_turn.iter().all(|arrived| *arrived > 0), "spread over the turns: {by_turn:?}");
    assert_eq!(counter(&near, "faulty_delayed"), 20);
}

#[test]
fn a_link_with_check_sequence_loses_damaged_frames() {
    let (mut near, mut far, to) = link(Faults { corrupt: 1.0, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, 0..10);
    assert_eq!(settle(&mut near, &mut far), [0; 0]);
    assert_eq!(counter(&near, "faulty_corrupted"), 10);
    assert!(are_all_frames_free(&near));
}

#[test]
fn a_link_without_delivers_them_and_the_senders_frame_stays_whole() {
    let (mut near, mut far, to) = link(Faults { corrupt: 1.0, check: false, ..NONE }, LoopbackOptions::default());
    let kept = numbered(&near, to, 1);
    let whole = kept.bytes().to_vec();
    let mut differences = BTreeSet::new();
    for _ in 0..1000 {
        assert!(near.send(to, &kept), "room");
        near.flush();
        // Steering may drop a frame with a damaged header.
        far.receive(1, &mut |frame| {
            let flipped = frame.bytes().iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
            assert_eq!(frame.bytes().len(), whole.len());
            differences.insert(flipped);
        });
    }
    assert_eq!(differences, [1, 2, 3].into());
    assert_eq!(kept.bytes(), whole);
}

#[test]
fn without_memory_there_is_no_copy_and_no_damage() {
    let options = LoopbackOptions { frames: 1, ..LoopbackOptions::default() };
    let (mut near, mut far, to) = link(Faults { duplicate: 1.0, ..NONE }, options);
    send(&mut near, to, [1]);
    assert_eq!(receive(&mut far), [1]);
    assert_eq!((counter(&near, "faulty_duplicated"), counter(&near, "faulty_no_memory")), (0, 1));

    let (mut near, mut far, to) = link(Faults { corrupt: 1.0, check: false, ..NONE }, options);
    send(&mut near, to, [1]);
    assert_eq!(settle(&mut near, &mut far), [0; 0]);
    assert_eq!((counter(&near, "faulty_corrupted"), counter(&near, "faulty_no_memory")), (1, 1));
    assert!(are_all_frames_free(&near));
}

#[test]
fn when_too_many_wait_the_next_one_is_spared() {
    let faults = Faults { delay: 1.0, delay_by: 1, waiting: 3, ..NONE };
    let (mut near, mut far, to) = link(faults, LoopbackOptions::default());
    for n in 0..5 {
        let frame = numbered(&near, to, n);
        assert!(near.send(to, &frame), "room");
    }
    near.flush();
    assert_eq!(receive(&mut far), [3, 4, 0, 1, 2]);
    assert_eq!((counter(&near, "faulty_delayed"), counter(&near, "faulty_spared")), (3, 2));
}

#[test]
fn waiting_frames_are_freed_when_the_end_is_closed() {
    let (mut near, far, to) = link(Faults { delay: 1.0, delay_by: 100, ..NONE }, LoopbackOptions::default());
    send(&mut near, to, 0..10);
    let pool = near.caps().pool.clone();
    assert_eq!(pool.available(), pool.layout().frames - 10);
    drop((near, far));
    assert_eq!(pool.available(), pool.layout().frames);
}

/// Send all frames, each until there is room. Returns the bytes of those that arrive.
fn persist(faults: Faults, queue: usize, frames: u32) -> Vec<Vec<u8>> {
    let (mut near, mut far, to) = link(faults, LoopbackOptions { queue, ..LoopbackOptions::default() });
    let mut arrived = vec![];
    for n in 0..frames {
        let frame = numbered(&near, to, n);
        while !near.send(to, &frame) {
            near.flush();
            far.receive(usize::MAX, &mut |frame| arrived.push(frame.bytes().to_vec()));
        }
    }
    near.flush();
    far.receive(usize::MAX, &mut |frame| arrived.push(frame.bytes().to_vec()));
    arrived
}

#[test]
fn a_refused_frame_has_the_same_faults_again() {
    let drop = Faults { seed: 11, drop: 0.3, ..NONE };
    let damage = Faults { seed: 11, corrupt: 0.3, check: false, ..NONE };
    for faults in [drop, damage] {
        let patient = persist(faults, 512, 300);
        assert!((150..300).contains(&patient.len()));
        assert_eq!(persist(faults, 1, 300), patient);
    }
}

#[test]
fn a_cable_can_be_pulled_and_put_back() {
    let (mut near, mut far, to) = link(NONE, LoopbackOptions::default());
    send(&mut near, to, [1]);
    near.set(Faults { drop: 1.0, ..NONE });
    send(&mut near, to, [2, 3]);
    near.set(NONE);
    send(&mut near, to, [4]);
    assert_eq!(receive(&mut far), [1, 4]);
}

#[test]
fn caps_promise_no_more_than_the_faults_allow() {
    let promise = |faults| {
        let (near, ..) = link(faults, LoopbackOptions::default());
        (near.caps().reliable, near.caps().ordered)
    };
    assert_eq!(promise(NONE), (true, true));
    assert_eq!(promise(Faults { drop: 0.01, ..NONE }), (false, true));
    assert_eq!(promise(Faults { corrupt: 0.01, ..NONE }), (false, true));
    assert_eq!(promise(Faults { duplicate: 0.01, ..NONE }), (false, true));
    assert_eq!(promise(Faults { reorder: 0.01, ..NONE }), (true, false));
    assert_eq!(promise(Faults { delay: 0.01, ..NONE }), (true, false));
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let p = || prop_oneof![Just(0.0), 0.0..1.0, Just(1.0)];
    (any::<u64>(), p(), p(), p(), p(), p(), 0u32..20, 0u32..10, 0usize..20).prop_map(
        |(seed, drop, duplicate, reorder, corrupt, delay, reorder_by, delay_by, waiting)| Faults {
            seed,
            drop,
            duplicate,
            reorder,
            corrupt,
            delay,
            reorder_by,
            delay_by,
            check: true,
            waiting,
        },
    )
}

proptest! {
    /// With any faults, every frame is counted and returns to its pool.
    #[test]
    fn every_frame_is_accounted_for(faults in any_faults(), queue in 1usize..64, frames in 1u32..200) {
        let (mut near, mut far, to) = link(faults, LoopbackOptions { queue, frames: 512, ..LoopbackOptions::default() });
        let (mut accepted, mut arrived) = (0, vec![]);
        for n in 0..frames {
            let frame = numbered(&near, to, n);
            accepted += near.send(to, &frame) as u64;
            if n % 3 == 0 {
                near.flush();
                arrived.extend(receive(&mut far));
            }
        }
        for _ in 0..600 {
            near.flush();
            arrived.extend(receive(&mut far));
        }
        let count = |name| counter(&near, name);
        let lost = count("faulty_dropped") + count("faulty_corrupted");
        prop_assert_eq!(arrived.len() as u64, accepted - lost + count("faulty_duplicated"));
        prop_assert!(are_all_frames_free(&near));
    }
}
