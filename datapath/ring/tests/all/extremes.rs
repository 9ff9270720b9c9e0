//! The safe interfaces with the arguments that a program should not give: each is refused, or does what its page says.
#![cfg(not(loom))]

use std::sync::atomic::Ordering::Relaxed;

use am_ring::lane::{LaneLayout, Shared};
use am_ring::{Layout, Pool};
use am_wire::Buffer;
use proptest::prelude::*;

use crate::script::{LAYOUT, attempt, play_frames, play_lane, play_leases};
use crate::watched::{is_gone, watched};

/// Numbers at which arithmetic goes wrong: around powers of two, the ends of types, and small ones.
fn extreme() -> impl Strategy<Value = usize> {
    let near = |bits: u32| (-2_i128..=2).map(move |off| ((1_i128 << bits) + off) as usize);
    let edges: Vec<usize> = [0, 6, 12, 16, 24, 31, 32, 33, 63, 64].into_iter().flat_map(near).collect();
    prop_oneof![3 => 0..200_usize, 2 => prop::sample::select(edges), 1 => any::<usize>()]
}

fn script() -> impl Strategy<Value = Vec<(u8, usize)>> {
    prop::collection::vec((any::<u8>(), extreme()), 1..if cfg!(miri) { 30 } else { 200 })
}

#[test]
fn memory_of_no_bytes_is_a_line() {
    let memory = Shared::heap(0);
    assert_eq!(memory.word(60).load(Relaxed), 0);
    assert!(attempt(|| memory.word(64).load(Relaxed)).is_none());
    for bytes in [usize::MAX, usize::MAX - 62, isize::MAX as usize] {
        assert!(attempt(|| Shared::heap(bytes)).is_none(), "{bytes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    #[test]
    fn a_frame_is_unique_where_one_handle_is_left(script in script(), is_pool_first: bool) {
        let (pool, memory) = watched(LAYOUT);
        let (held, is_any_lost) = play_frames(&pool, &script);
        if is_pool_first {
            drop(pool);
            prop_assert_eq!(is_gone(&memory), held.is_empty() && !is_any_lost);
            drop(held);
        } else {
            drop(held);
            prop_assert!(is_any_lost || pool.available() == LAYOUT.frames);
            drop(pool);
        }
        prop_assert_eq!(is_gone(&memory), !is_any_lost);
    }

    #[test]
    fn a_lane_takes_any_call_in_any_state(script in script()) {
        play_lane(&script);
    }

    #[test]
    fn a_lease_table_takes_any_place(script in script()) {
        play_leases(&script);
    }

    #[test]
    fn layouts_and_parts_of_any_size_are_refused_or_true(
        (frames, stride, headroom) in (0..64_usize, extreme(), extreme()), (at, bytes) in (extreme(), extreme()),
    ) {
        // Stays below what a test may take.
        if stride <= 1 << 16 && let Ok(pool) = Pool::heap(Layout { frames, stride, headroom }) {
            let mut frame = pool.take().unwrap();
            let room = frame.space().unwrap().len();
            prop_assert_eq!((frame.offset(), room), (headroom, stride - headroom));
        }
        prop_assert!(LaneLayout::least(at).is_none_or(|lane| lane.bytes() > at && lane.longest() == at));
        let memory = Shared::heap(4096);
        if let Some(part) = attempt(|| memory.part(at, bytes)) {
            prop_assert!(at + bytes <= 4096);
            prop_assert!(bytes == 0 || attempt(|| part.word(bytes - 4).load(Relaxed)).is_some());
            prop_assert!(attempt(|| part.word(bytes).load(Relaxed)).is_none());
        }
    }
}
