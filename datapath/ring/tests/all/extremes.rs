//! The safe interfaces with the arguments that a program should not give: each is refused, or does what its page says.
#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use am_ring::lane::{LaneLayout, Pair, Peeked, Receiver, Sender, Shared};
use am_ring::{Frame, Layout, LeaseTable, Pool};
use am_wire::Buffer;
use proptest::prelude::*;

/// Numbers at which arithmetic goes wrong: around powers of two, the ends of types, and small ones.
fn extreme() -> impl Strategy<Value = usize> {
    let near = |bits: u32| (-2_i128..=2).map(move |off| ((1_i128 << bits) + off) as usize);
    let edges: Vec<usize> = [0, 6, 12, 16, 24, 31, 32, 33, 63, 64].into_iter().flat_map(near).collect();
    prop_oneof![3 => 0..200_usize, 2 => prop::sample::select(edges), 1 => any::<usize>()]
}

/// Run a call that may panic for its arguments. The panic's text is not of interest.
fn attempt<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[test]
fn no_number_of_handles_is_cut_to_fit_the_count() {
    let pool = Pool::heap(Layout { frames: 1, stride: 64, headroom: 0 }).unwrap();
    for count in [1 << 32, (1 << 32) + 1, u32::MAX as usize, 1 << 31, usize::MAX] {
        let mut frame = pool.take().unwrap();
        for shared in [false, true] {
            let other = shared.then(|| frame.share());
            assert!(attempt(|| frame.share_many(count).next()).is_none(), "{count} handles, counted as {}", count as u32);
            drop(other);
            assert!(frame.space().is_some(), "nothing was counted");
        }
    }
    assert_eq!(pool.available(), 1);
}

#[test]
fn memory_of_no_bytes_is_a_line() {
    let memory = Shared::heap(0);
    assert_eq!(memory.word(60).load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(attempt(|| memory.word(64).load(std::sync::atomic::Ordering::Relaxed)).is_none());
    for bytes in [usize::MAX, usize::MAX - 62, isize::MAX as usize] {
        assert!(attempt(|| Shared::heap(bytes)).is_none(), "{bytes}");
    }
}

/// What a program does to frames, with any numbers.
#[derive(Clone, Debug)]
enum Step {
    Take,
    Share(usize),
    /// The handles, of which the program drops all, or forgets to take some.
    ShareMany(usize, usize),
    SetLen(usize, usize),
    Write(usize),
    Drop(usize),
    /// It is never dropped.
    Forget(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<usize>;
    prop_oneof![
        3 => Just(Step::Take),
        1 => which().prop_map(Step::Share),
        2 => (which(), extreme()).prop_map(|(which, count)| Step::ShareMany(which, count)),
        1 => (which(), extreme()).prop_map(|(which, len)| Step::SetLen(which, len)),
        2 => which().prop_map(Step::Write),
        3 => which().prop_map(Step::Drop),
        1 => which().prop_map(Step::Forget),
    ]
}

/// A pool, the handles that a test holds, and the handles of each frame that it has lost.
struct World {
    pool: Pool,
    held: Vec<Frame>,
    lost: Vec<usize>,
}

impl World {
    fn handles(&self, index: usize) -> usize {
        self.lost[index] + self.held.iter().filter(|frame| frame.index() == index).count()
    }

    fn apply(&mut self, step: Step) {
        let count = self.held.len();
        match step {
            Step::Take => self.held.extend(self.pool.take()),
            _ if count == 0 => (),
            Step::Share(which) => self.held.push(self.held[which % count].share()),
            Step::ShareMany(which, many) => {
                let frame = &self.held[which % count];
                // More than a few are not taken, and so are lost.
                let few = attempt(|| frame.share_many(many).take(8).collect::<Vec<_>>()).unwrap_or_default();
                if !few.is_empty() {
                    self.lost[frame.index()] += many - few.len();
                }
                self.held.extend(few);
            }
            Step::SetLen(which, len) => {
                let frame = &mut self.held[which % count];
                frame.set_len(len);
                assert_eq!(frame.bytes().len(), len.min(frame.room()));
            }
            Step::Write(which) => {
                let (index, is_only) = (self.held[which % count].index(), self.held[which % count].is_unique());
                assert_eq!(is_only, self.handles(index) == 1);
                let room = self.held[which % count].room();
                let space = self.held[which % count].space();
                assert_eq!(space.as_ref().map(|space| space.len()), is_only.then_some(room));
                space.into_iter().for_each(|space| space.fill(index as u8));
            }
            Step::Drop(which) => drop(self.held.swap_remove(which % count)),
            Step::Forget(which) => {
                let frame = self.held.swap_remove(which % count);
                self.lost[frame.index()] += 1;
                std::mem::forget(frame);
            }
        }
        let out = (0..self.lost.len()).filter(|index| self.handles(*index) > 0).count();
        assert_eq!(self.pool.available(), self.lost.len() - out);
    }
}

/// What a program does to a lane, with any numbers.
fn play_lane(script: &[(u8, usize)], memory: &Shared, sender: &mut Sender, receiver: &mut Receiver, pair: Pair) {
    let frame = vec![7; 4096];
    for &(what, number) in script {
        match what {
            0 => _ = sender.push(&frame[..number.min(frame.len())]),
            1 => _ = sender.publish(),
            2 => _ = attempt(|| receiver.take(&mut vec![0; number.min(5000)])),
            3 => _ = receiver.read_head(&mut vec![0; number.min(5000)], number),
            4 => _ = attempt(|| sender.relay(receiver, &frame[..number.min(frame.len())], number)),
            5 => sender.offer(pair),
            6 => _ = receiver.accept(pair),
            7 => _ = attempt(|| memory.word(number).store(number as u32, std::sync::atomic::Ordering::Relaxed)),
            8 => _ = attempt(|| sender.has_room_for(number)),
            9 => _ = receiver.has_diverged(),
            _ => {
                if let Peeked::Frame(length) = receiver.peek() {
                    assert!(length <= 1500);
                    receiver.take(&mut vec![0; length]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    /// The model counts handles without a limit. The pool is right about each, or refuses.
    #[test]
    fn a_frame_is_unique_where_one_handle_is_left(steps in prop::collection::vec(step(), 1..40)) {
        let pool = Pool::heap(Layout { frames: 3, stride: 64, headroom: 0 }).unwrap();
        let mut world = World { pool, held: vec![], lost: vec![0; 3] };
        steps.into_iter().for_each(|step| world.apply(step));
    }

    #[test]
    fn layouts_and_parts_of_any_size_are_refused_or_true(
        (frames, stride, headroom) in (0..64_usize, extreme(), extreme()), (at, bytes) in (extreme(), extreme()),
    ) {
        // Stays below what a test may take.
        let layout = Layout { frames, stride: stride.min(1 << 40), headroom };
        if layout.stride <= 1 << 16 && let Ok(pool) = Pool::heap(layout) {
            let mut frame = pool.take().unwrap();
            let room = frame.space().unwrap().len();
            prop_assert_eq!((frame.offset(), room), (headroom, stride - headroom));
        }
        prop_assert_eq!(LaneLayout::new(bytes, at).is_some_and(|lane| lane.bytes() < bytes), false);
        let memory = Shared::heap(4096);
        if let Some(part) = attempt(|| memory.part(at, bytes)) {
            prop_assert!(at + bytes <= 4096);
            prop_assert!(bytes == 0 || attempt(|| part.word(bytes - 4)).is_some());
            prop_assert!(attempt(|| part.word(bytes)).is_none());
        }
    }

    #[test]
    fn a_lane_takes_any_call_in_any_state(script in prop::collection::vec((0..14_u8, extreme()), 1..200)) {
        let shape = LaneLayout::new(LaneLayout::least(1500).unwrap(), 1500).unwrap();
        let (memory, pair) = (Shared::heap(shape.bytes()), Pair::new(1, 2));
        let (mut sender, mut receiver) = (Sender::new(memory.clone(), shape), Receiver::new(memory.clone(), shape));
        play_lane(&script, &memory, &mut sender, &mut receiver, pair);
    }

    #[test]
    fn a_lease_table_takes_any_place(steps in prop::collection::vec((0..3_u8, extreme()), 1..50)) {
        let (mut table, mut held) = (LeaseTable::new(4), vec![]);
        for (what, number) in steps {
            match what {
                0 => held.extend(table.lease()),
                1 => held.extend(table.lease_again(number)),
                _ => {
                    held.pop();
                    _ = table.reclaim();
                }
            }
            prop_assert!(held.iter().all(|lease: &am_ring::Lease| lease.place() < 4));
        }
    }
}
