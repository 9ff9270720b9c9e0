//! A process that may open the segment writes over everything in it, all the time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use crate::link::{counters, join, options};
use am_ring::Frame;
use am_shm::{Shm, ShmOptions};
use am_transport::Transport;
use am_wire::{Address, Buffer};
use tempfile::tempdir;

/// Write words anywhere until `stop` is set. Half of them go to the most critical places: headers, and the first lines of lanes.
fn lie(file: &File, seed: u64, stop: &AtomicBool, told: &AtomicU64) {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ seed << 20;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let length = file.metadata().unwrap().len();
    while !stop.load(Relaxed) {
        // Two members, of four numbers: these are the two lanes that are used.
        let (lane, used) = (266_240, [1, 4][(next() % 2) as usize]);
        let place = match next() % 4 {
            0 => next() % 28_672,
            1 => 28_672 + lane * used + next() % 1024,
            2 => 28_672 + lane * used + next() % lane,
            _ => next() % length,
        };
        let word = match next() % 4 {
            0 => 0,
            1 => u32::MAX,
            2 => (next() % 5000) as u32,
            _ => next() as u32,
        };
        file.write_all_at(&word.to_le_bytes(), place / 4 * 4).unwrap();
        if told.fetch_add(1, Relaxed).is_multiple_of(64) {
            thread::yield_now();
        }
    }
}

/// The number of lies each time.
const LIES: u64 = 20_000;

/// A frame of 100 bytes that does not matter.
fn any(end: &Shm) -> Option<Frame> {
    end.caps().pool.copy(&[0x88; 100])
}

fn member(options: &ShmOptions, peers: &AtomicBool, stop: &AtomicBool) {
    let mut end = join(options);
    peers.store(true, Relaxed);
    let home = end.caps().pool.clone();
    let mut received = vec![];
    while !stop.load(Relaxed) {
        for to in [Address::BROADCAST, Address([2, 0, 0, 0, 0, 1])] {
            if let Some(frame) = any(&end) {
                _ = end.send(to, &frame);
            }
        }
        crate::link::build(&end, Address::BROADCAST, 1, 3000).map(|frame| end.send(Address::BROADCAST, &frame));
        end.flush();
        end.receive(64, &mut |frame| received.push(frame));
        for frame in received.drain(..) {
            // Whatever is in it: it stays what it was.
            let before = frame.bytes().to_vec();
            assert_eq!(frame.bytes(), before);
        }
        assert!(end.caps().address.is_local());
    }
    drop(end);
    assert_eq!(home.available(), home.layout().frames, "frames of our own were lost");
}

fn segment(dir: &Path) -> File {
    File::options().read(true).write(true).open(dir.join("am-test.shm")).unwrap()
}

#[test]
fn two_members_outlive_a_liar() {
    let dir = tempdir().unwrap();
    let options = ShmOptions { members: Some(2), ..options(dir.path()) };
    for seed in 1..6 {
        let (stop, there) = (AtomicBool::new(false), [AtomicBool::new(false), AtomicBool::new(false)]);
        thread::scope(|threads| {
            let ends = [0, 1].map(|at| {
                threads.spawn({
                    let (options, there, stop) = (&options, &there[at], &stop);
                    move || member(options, there, stop)
                })
            });
            while !there.iter().all(|there| there.load(Relaxed)) {
                assert!(ends.iter().all(|end| !end.is_finished()), "a member failed");
                thread::yield_now();
            }
            let file = segment(dir.path());
            let told = AtomicU64::new(0);
            thread::scope(|liars| {
                liars.spawn(|| lie(&file, seed, &stop, &told));
                while told.load(Relaxed) < LIES * 5 {
                    thread::yield_now();
                }
                stop.store(true, Relaxed);
            });
            ends.into_iter().for_each(|end| end.join().unwrap());
        });
    }
}

#[test]
fn after_the_lies_they_talk_again() {
    let dir = tempdir().unwrap();
    let options = ShmOptions { members: Some(2), ..options(dir.path()) };
    let [mut near, mut far] = [0, 1].map(|_| join(&options));
    let file = segment(dir.path());
    let mut lost = 0;
    for seed in 1..16 {
        let (stop, told) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|threads| {
            threads.spawn(|| lie(&file, seed, &stop, &told));
            while told.load(Relaxed) < LIES {
                tries(&mut near, &mut far);
                tries(&mut far, &mut near);
            }
            stop.store(true, Relaxed);
        });
        for _ in 0..2 {
            talks(&mut near, &mut far);
            std::mem::swap(&mut near, &mut far);
        }
        lost += counters(&near)["shm_nonsense"] + counters(&near)["shm_restarts"];
    }
    assert!(lost > 0, "no lie was noticed, so nothing was tried");
}

/// A frame is sent, and may arrive.
fn tries(from: &mut Shm, to: &mut Shm) {
    let address = to.caps().address;
    any(from).map(|frame| from.send(address, &frame));
    from.flush();
    to.receive(64, &mut |_| ());
}

/// Some frames get through whole, as soon as both have looked around.
fn talks(near: &mut Shm, far: &mut Shm) {
    let to = far.caps().address;
    let mut number = 1 << 32;
    crate::link::until("they talk again", || {
        number += 1;
        crate::link::send(near, to, number, 150);
        near.flush();
        let mut heard = false;
        far.receive(64, &mut |frame| {
            // What was forged before may still come.
            heard |= frame.bytes().len() == 150 && frame.bytes()[..6] == to.0;
        });
        far.flush();
        near.receive(64, &mut |_| ());
        heard
    });
}
