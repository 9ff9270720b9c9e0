//! The pool under the model checker: every interleaving of a few threads that
//! the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p am-ring --tests --target-dir target/loom
//! ```
//!
//! Each ordering in `slot.rs` and `remote.rs` is needed by one of
//! these tests: weaken it, and one fails.
#![cfg(loom)]

use std::sync::{Arc, Weak};

use crate::watched::{is_gone, watched};
use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread::{self, JoinHandle};

fn layout(frames: usize) -> Layout {
    Layout { frames, stride: 8, headroom: 0 }
}

/// Says that something has happened, without ordering it before what comes
/// next: relaxed. Who asks makes the checker try both answers, where alone it
/// would not let a thread finish between two of our own looks at a count.
#[derive(Clone)]
struct Rumour(Arc<AtomicBool>);

impl Rumour {
    fn new() -> Rumour {
        Rumour(Arc::new(AtomicBool::new(false)))
    }

    fn spread(&self) {
        self.0.store(true, Relaxed);
    }

    fn has_spread(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// What a reader does, for the checker to see.
fn read(frame: &Frame) {
    assert_eq!(frame.bytes(), b"data");
}

/// What a writer does. Whoever still reads the old bytes is a race.
fn write(frame: &mut Frame) {
    frame.space().expect("unique").fill(0);
}

/// Another thread reads a frame and lets it go.
fn far_away(frame: Frame) -> (JoinHandle<()>, Rumour) {
    let rumour = Rumour::new();
    let spread = rumour.clone();
    let far = thread::spawn(move || {
        read(&frame);
        drop(frame);
        spread.spread();
    });
    (far, rumour)
}

fn everything_home(pool: Pool, memory: &Weak<()>) {
    assert_eq!(pool.available(), pool.layout().frames);
    drop(pool);
    assert!(is_gone(memory));
}

#[test]
fn a_frame_read_elsewhere_is_written_again_only_after() {
    loom::model(|| {
        let (pool, memory) = watched(layout(1));
        let frame = pool.copy(b"data").unwrap();
        let (far, rumour) = far_away(frame.share());
        read(&frame);
        let _ = rumour.has_spread();
        drop(frame);
        if let Some(mut again) = pool.take() {
            write(&mut again);
        }
        far.join().unwrap();
        everything_home(pool, &memory);
    });
}

#[test]
fn a_frame_is_unique_again_only_after_the_others_reads() {
    loom::model(|| {
        let (pool, memory) = watched(layout(1));
        let mut frame = pool.copy(b"data").unwrap();
        let (far, rumour) = far_away(frame.share());
        if rumour.has_spread() && frame.is_unique() {
            write(&mut frame);
        }
        drop(frame);
        far.join().unwrap();
        everything_home(pool, &memory);
    });
}

/// The second `share` may find the count back at one and store instead of add:
/// what the first shared handle read must still come first.
#[test]
fn a_share_without_read_modify_write_forgets_no_reader() {
    loom::model(|| {
        let (pool, memory) = watched(layout(1));
        let mut frame = pool.copy(b"data").unwrap();
        let (far, rumour) = far_away(frame.share());
        let _ = rumour.has_spread();
        drop(frame.share());
        if frame.is_unique() {
            write(&mut frame);
        }
        drop(frame);
        far.join().unwrap();
        everything_home(pool, &memory);
    });
}

#[test]
fn two_threads_bring_frames_home_while_the_owner_takes_them() {
    loom::model(|| {
        let (pool, memory) = watched(layout(2));
        let frames = [pool.copy(b"data").unwrap(), pool.copy(b"data").unwrap()];
        let threads = frames.map(far_away);
        let _ = threads[0].1.has_spread();
        let mut taken: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        taken.iter_mut().for_each(write);
        assert!(pool.available() <= 2 - taken.len());
        drop(taken);
        threads.into_iter().for_each(|(far, _)| far.join().unwrap());
        everything_home(pool, &memory);
    });
}

#[test]
fn the_last_handles_of_one_frame_race_home() {
    loom::model(|| {
        let (pool, memory) = watched(layout(1));
        let frame = pool.copy(b"data").unwrap();
        let threads = [frame.share(), frame.share()].map(|shared| thread::spawn(move || read(&shared)));
        drop(frame);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        everything_home(pool, &memory);
    });
}

/// The race that frees the memory: the pool goes while two frames come home.
#[test]
fn pool_and_frames_race_for_the_end() {
    loom::model(|| {
        let (pool, memory) = watched(layout(3));
        let frames = [pool.copy(b"data").unwrap(), pool.copy(b"data").unwrap()];
        let threads = frames.map(far_away);
        let _ = threads[0].1.has_spread();
        drop(pool);
        threads.into_iter().for_each(|(far, _)| far.join().unwrap());
        assert!(is_gone(&memory));
    });
}

#[test]
fn a_shared_frame_and_its_pool_race_for_the_end() {
    loom::model(|| {
        let (pool, memory) = watched(layout(1));
        let frame = pool.copy(b"data").unwrap();
        let (far, rumour) = far_away(frame.share());
        drop(pool);
        let _ = rumour.has_spread();
        drop(frame);
        far.join().unwrap();
        assert!(is_gone(&memory));
    });
}
