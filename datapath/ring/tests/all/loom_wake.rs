//! The hand-over to a thread that sleeps, under the model checker; the command is in `loom_pool.rs`. A wake-up that is missed
//! leaves the sleeper without an end, which the model checker reports.
#![cfg(loom)]

use std::collections::VecDeque;

use am_ring::WakeFlag;
use am_ring::lane::{Shared as SharedMemory, SleepWord};
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const WORK: u32 = 1;
const OTHER: u32 = 2;

/// What a node and its handles share: the queue, the flag, and an eventfd.
#[derive(Default)]
struct Shared {
    queue: Mutex<VecDeque<u32>>,
    flag: WakeFlag,
    event: Mutex<u32>,
    is_readable: Condvar,
}

impl Shared {
    fn post(&self, work: u32, reason: u32) {
        self.queue.lock().unwrap().push_back(work);
        if self.flag.wake(reason) {
            *self.event.lock().unwrap() += 1;
            self.is_readable.notify_one();
        }
    }

    /// Sleep until the event is readable, and read it.
    fn sleep(&self) {
        let mut event = self.event.lock().unwrap();
        while *event == 0 {
            event = self.is_readable.wait(event).unwrap();
        }
        *event = 0;
    }

    /// The owner's loop, until it has had so much work. Returns how often it slept.
    fn serve(&self, count: usize) -> usize {
        let (mut done, mut sleeps) = (0, 0);
        while done < count {
            self.flag.take();
            done += self.queue.lock().unwrap().drain(..).count();
            if done < count && self.flag.try_sleep() {
                self.sleep();
                sleeps += 1;
            }
        }
        sleeps
    }
}

#[test]
fn one_post_ends_the_sleep() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let posts = shared.clone();
        let other = thread::spawn(move || posts.post(7, WORK));
        assert!(shared.serve(1) <= 1);
        other.join().unwrap();
    });
}

#[test]
fn two_threads_post_and_none_is_missed() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let others = [WORK, OTHER].map(|reason| {
            let posts = shared.clone();
            thread::spawn(move || posts.post(7, reason))
        });
        shared.serve(2);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn two_posts_in_turn_are_both_found() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let posts = shared.clone();
        let other = thread::spawn(move || (0..2).for_each(|work| posts.post(work, WORK)));
        shared.serve(2);
        other.join().unwrap();
    });
}

/// Without a queue with a lock: the flag alone orders what was written before it.
#[test]
fn what_was_done_before_a_wake_is_seen_after_the_take() {
    loom::model(|| {
        let shared = Arc::new((WakeFlag::default(), loom::cell::UnsafeCell::new(0)));
        let writes = shared.clone();
        let other = thread::spawn(move || {
            // SAFETY: nobody reads it before the flag says so.
            writes.1.with_mut(|place| unsafe { *place = 7 });
            writes.0.wake(WORK);
        });
        if shared.0.take() == WORK {
            // SAFETY: the other thread wrote it before, and writes no more.
            assert_eq!(shared.1.with(|place| unsafe { *place }), 7);
        }
        other.join().unwrap();
    });
}

/// A receiver gives back lines of a full lane, and its sender sleeps until there is room: it sees the room, or it is woken.
#[test]
fn a_process_that_waits_for_room_sees_it_or_is_woken() {
    loom::model(|| {
        let memory = SharedMemory::heap(128);
        let receiver = {
            let memory = memory.clone();
            thread::spawn(move || {
                memory.word(64).store(1, Relaxed);
                SleepWord::after_publish();
                SleepWord::at(&memory, 0).take_for_room()
            })
        };
        SleepWord::at(&memory, 0).set(true);
        let seen = memory.word(64).load(Relaxed) == 1;
        assert!(receiver.join().unwrap() || seen, "it sleeps for ever");
    });
}

/// Two senders of two lanes, and the process that reads both: it sees each frame, or one of the senders wakes it.
#[test]
fn a_process_that_sleeps_sees_the_frames_or_is_woken_once() {
    loom::model(|| {
        let memory = SharedMemory::heap(128);
        let senders = [64, 68].map(|lane| {
            let memory = memory.clone();
            thread::spawn(move || {
                memory.word(lane).store(1, Relaxed);
                SleepWord::after_publish();
                SleepWord::at(&memory, 0).take()
            })
        });
        SleepWord::at(&memory, 0).set(false);
        let seen = [64, 68].map(|lane| memory.word(lane).load(Relaxed) == 1);
        let wakes = senders.map(|sender| sender.join().unwrap()).into_iter().filter(|wakes| *wakes).count();
        assert!(wakes == 1 || wakes == 0 && seen == [true; 2], "{wakes} wake it, and it has seen {seen:?}");
    });
}
