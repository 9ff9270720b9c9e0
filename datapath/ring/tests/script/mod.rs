//! What a program may do to the safe interfaces of this crate, as pairs of a step and a number, with models that must agree. The fuzz
//! target `frames` plays any bytes.
#![allow(dead_code, reason = "the fuzz target uses a part")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use am_ring::lane::{Burst, Duplex, LaneCounters, LaneLayout, Pair, Peeked, Shared};
use am_ring::{Frame, Layout, LeaseTable, Pool};
use am_wire::Buffer;

/// A step, and a number for it: which of what is there, or how many.
pub(crate) type Script = [(u8, usize)];

/// Run a call that may refuse its arguments by a panic.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// A pool, the handles that a program holds, and the number of handles of each frame that it has lost.
struct World {
    pool: Pool,
    held: Vec<Frame>,
    lost: Vec<usize>,
}

impl World {
    fn handles(&self, index: usize) -> usize {
        self.lost[index] + self.held.iter().filter(|frame| frame.index() == index).count()
    }

    fn apply(&mut self, step: u8, number: usize) {
        let count = self.held.len();
        let at = number % count.max(1);
        match step % 10 {
            0 | 1 => self.held.extend(self.pool.take()),
            _ if count == 0 => (),
            2 | 3 => self.held.push(self.held[at].share()),
            4 => {
                let frame = &mut self.held[at];
                frame.set_len(number);
                assert_eq!(frame.bytes().len(), number.min(frame.room()));
            }
            5 => self.write(at),
            6 => drop(self.held.swap_remove(at)),
            7 => {
                let raw = self.held.swap_remove(at).into_raw();
                // SAFETY: once for the one `into_raw`.
                self.held.push(unsafe { self.pool.from_raw_at(raw.index, raw.start, raw.len) });
            }
            8 => {
                let frame = self.held.swap_remove(at);
                std::thread::scope(|threads| drop(threads.spawn(|| drop(frame))));
            }
            _ => {
                let frame = self.held.swap_remove(at);
                self.lost[frame.index()] += 1;
                std::mem::forget(frame);
            }
        }
        let out = (0..self.lost.len()).filter(|index| self.handles(*index) > 0).count();
        assert_eq!(self.pool.available(), self.lost.len() - out);
        for frame in &self.held {
            let is_own = |byte: &u8| *byte == 0 || *byte == 1 + frame.index() as u8;
            assert!(frame.bytes().iter().all(is_own), "another frame was written into it");
        }
    }

    /// The bytes can be written through the only handle, and through no other.
    fn write(&mut self, at: usize) {
        let (index, room) = (self.held[at].index(), self.held[at].room());
        let is_only = self.handles(index) == 1;
        assert_eq!(self.held[at].is_unique(), is_only);
        let space = self.held[at].space();
        assert_eq!(space.as_ref().map(|space| space.len()), is_only.then_some(room));
        space.into_iter().for_each(|space| space.fill(1 + index as u8));
    }
}

/// The layout of the pool of [`play_frames`].
pub(crate) const LAYOUT: Layout = Layout { frames: 3, stride: 64, headroom: 16 };

/// Frames and their handles. Returns the handles that are left, and whether any was lost.
pub(crate) fn play_frames(pool: &Pool, script: &Script) -> (Vec<Frame>, bool) {
    let mut world = World { pool: pool.clone(), held: vec![], lost: vec![0; LAYOUT.frames] };
    script.iter().for_each(|(step, number)| world.apply(*step, *number));
    (world.held, world.lost != [0; LAYOUT.frames])
}

/// Both ends of a lane, and any words written into it.
pub(crate) fn play_lane(script: &Script) {
    const LONGEST: usize = 1500;
    let shape = LaneLayout::least(LONGEST).unwrap();
    let (memory, pair) = (Shared::heap(shape.bytes()), Pair::new(1, 2));
    let mut lanes = Duplex::new(memory.clone(), memory.clone(), shape);
    lanes.connect(pair, pair);
    let pool = Pool::heap(Layout { frames: 2, stride: LONGEST - 100, headroom: 0 }).unwrap();
    let (frame, mut place, mut counters) = ([7; 4096], [0; 4096], LaneCounters::default());
    for &(step, number) in script {
        let few = number % frame.len();
        let Duplex { to, from, .. } = &mut lanes;
        match step % 14 {
            0 => _ = to.push(&frame[..few]),
            1 => _ = to.publish(),
            2 => _ = from.take(&mut place[..few]),
            3 => _ = from.read_head(&mut place[..few], number),
            // The head is a multiple of 4 and no longer than the frame.
            4 => _ = to.relay(from, &frame[..60.min(few) & !3], few),
            5 => to.offer(pair),
            6 => _ = from.accept(pair),
            7 => memory.word(number % (shape.bytes() / 4) * 4).store((number >> 16) as u32, Relaxed),
            8 => _ = to.has_room_for(few),
            9 => _ = (from.has_diverged(), to.needs_offer(), to.made_room(), from.is_quiet(), lanes.is_quiet()),
            10 => from.forget(),
            11 => _ = lanes.repair(),
            12 => {
                let (mut burst, mut taken) = (Burst::default(), 0);
                while let Some(frame) = lanes.next(&mut burst, &pool, &mut counters) {
                    assert!((1..=LONGEST - 100).contains(&frame.bytes().len()));
                    taken += 1;
                }
                assert!(taken <= 256 && pool.available() == 2);
            }
            _ => {
                if let Peeked::Frame(length) = from.peek() {
                    assert!((1..=LONGEST).contains(&length));
                    from.take(&mut place[..length]);
                }
            }
        }
    }
}

/// Leases of a table.
pub(crate) fn play_leases(script: &Script) {
    let (mut table, mut held) = (LeaseTable::new(4), vec![]);
    for &(step, number) in script {
        match step % 4 {
            0 => held.extend(table.lease()),
            1 => held.extend(table.lease_again(number)),
            2 => drop((!held.is_empty()).then(|| held.swap_remove(number % held.len()))),
            _ => {
                let found = table.reclaim();
                assert!(found.is_none_or(|place| held.iter().all(|lease: &am_ring::Lease| lease.place() != place)));
            }
        }
        assert!(held.iter().all(|lease| lease.place() < 4));
    }
}
