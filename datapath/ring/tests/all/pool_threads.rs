//! Frames that come home from other threads.

#![cfg(not(loom))]

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;

use crate::watched::{is_gone, watched};
use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;

const LAYOUT: Layout = Layout { frames: 16, stride: 64, headroom: 0 };
const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };

#[test]
fn a_frame_dropped_on_another_thread_can_be_taken_again() {
    let pool = Pool::heap(LAYOUT).unwrap();
    for _ in 0..ROUNDS.min(200) {
        let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((frames.len(), pool.available()), (16, 0));
        thread::spawn(move || drop(frames)).join().unwrap();
        assert_eq!(pool.available(), 16);
    }
}

#[test]
fn a_pool_that_is_gone_takes_frames_from_anywhere() {
    let (pool, memory) = watched(LAYOUT);
    let (here, there) = (pool.take().unwrap(), pool.copy(b"there").unwrap());
    drop(pool);
    let there = thread::spawn(move || {
        assert_eq!(there.bytes(), b"there");
        drop(there);
    });
    there.join().unwrap();
    assert!(!is_gone(&memory));
    drop(here);
    assert!(is_gone(&memory));
}

#[test]
fn the_last_frame_may_be_dropped_far_away() {
    let (pool, memory) = watched(LAYOUT);
    let frame = pool.take().unwrap();
    drop(pool);
    thread::spawn(move || drop(frame)).join().unwrap();
    assert!(is_gone(&memory));
}

#[test]
fn frames_outlive_the_thread_of_their_pool() {
    let (frame, memory) = thread::spawn(|| {
        let (pool, memory) = watched(LAYOUT);
        (pool.copy(b"orphan").unwrap(), memory)
    })
    .join()
    .unwrap();
    assert_eq!(frame.share().bytes(), b"orphan");
    drop(frame);
    assert!(is_gone(&memory));
}

/// Destructors of a thread's own variables run when there is hardly a thread any more.
#[test]
fn pool_and_frames_may_go_with_their_thread() {
    thread_local!(static HELD: RefCell<Option<(Pool, Frame, Frame)>> = const { RefCell::new(None) });
    let memory = thread::spawn(|| {
        let (pool, memory) = watched(LAYOUT);
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        HELD.set(Some((pool, first.share(), second)));
        thread::spawn(move || drop(first)).join().unwrap();
        memory
    });
    assert!(is_gone(&memory.join().unwrap()));
}

/// A pool that is forgotten is never freed, and a later thread is not mistaken for its owner.
#[cfg(not(miri))]
#[test]
fn a_forgotten_pool_costs_its_memory_and_nothing_else() {
    let (frame, memory) = thread::spawn(|| {
        let (pool, memory) = watched(LAYOUT);
        let frame = pool.take().unwrap();
        std::mem::forget(pool);
        (frame, memory)
    })
    .join()
    .unwrap();
    thread::spawn(move || drop(frame)).join().unwrap();
    assert!(!is_gone(&memory));
}

/// Writes the number into the whole frame, so that a frame that is given out
/// twice, or too early, shows.
fn stamp(mut frame: Frame, number: usize) -> Frame {
    frame.space().expect("a fresh frame is unique").fill(number as u8);
    frame.set_len(64);
    frame
}

fn check(frame: Frame, number: usize) {
    assert_eq!(frame.bytes(), [number as u8; 64]);
}

#[test]
fn no_frame_is_given_out_twice_while_three_threads_drop_them() {
    let (pool, memory) = watched(LAYOUT);
    let (wires, threads): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (tx, rx) = mpsc::sync_channel::<(usize, Frame)>(8);
            (tx, thread::spawn(move || rx.into_iter().for_each(|(number, frame)| check(frame, number))))
        })
        .unzip();
    for number in 0..ROUNDS {
        let Some(frame) = pool.take() else {
            thread::yield_now();
            continue;
        };
        let frame = stamp(frame, number);
        // All three read it, and so do we: whoever is last brings it home.
        for wire in &wires {
            wire.send((number, frame.share())).unwrap();
        }
        check(frame, number);
    }
    drop(wires);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(pool.available(), 16, "every frame home");
    drop(pool);
    assert!(is_gone(&memory));
}

#[test]
fn the_pool_goes_while_frames_come_home() {
    for _ in 0..ROUNDS / 10 {
        let (pool, memory) = watched(Layout { frames: 3, ..LAYOUT });
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        let shared = second.share();
        let threads = [thread::spawn(move || drop(first)), thread::spawn(move || drop(second))];
        drop(pool);
        drop(shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_gone(&memory));
    }
}
