//! One thread, one pool.

#![cfg(not(loom))]

use crate::watched::{is_gone, watched};
use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::Buffer;

const LAYOUT: Layout = Layout { frames: 4, stride: 128, headroom: 32 };

fn pool() -> Pool {
    Pool::heap(LAYOUT).unwrap()
}

#[test]
fn a_fresh_frame_is_empty_and_starts_behind_the_headroom() {
    let pool = pool();
    let mut frame = pool.take().unwrap();
    assert_eq!((frame.bytes().len(), frame.room(), frame.offset()), (0, 96, 32));
    assert_eq!(frame.space().unwrap().len(), LAYOUT.stride - LAYOUT.headroom);
    assert_eq!(pool.available(), 3);
}

#[test]
fn what_is_written_is_read() {
    let pool = pool();
    let frame = pool.copy(b"hello").unwrap();
    assert_eq!(frame.bytes(), b"hello");
    let shared = frame.share();
    drop(frame);
    assert_eq!(shared.bytes(), b"hello");
}

#[test]
fn a_frame_has_no_more_bytes_than_room() {
    let pool = pool();
    let mut frame = pool.take().unwrap();
    frame.set_len(1000);
    assert_eq!(frame.bytes().len(), 96);
    assert!(pool.copy(&[0; 97]).is_none());
    assert_eq!(pool.available(), 3, "the frame that was too short is home");
}

#[test]
fn frames_do_not_overlap() {
    let pool = pool();
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((frames.len(), pool.available()), (4, 0));
    for (mark, frame) in frames.iter_mut().enumerate() {
        frame.space().unwrap().fill(mark as u8);
        frame.set_len(96);
    }
    for (mark, frame) in frames.iter().enumerate() {
        assert!(frame.bytes().iter().all(|byte| *byte == mark as u8));
    }
}

#[test]
fn a_shared_frame_is_read_only_and_comes_home_once() {
    let pool = pool();
    let mut frame = pool.copy(b"ours").unwrap();
    let mut second = frame.share();
    let third = second.share();
    assert!(frame.space().is_none() && second.space().is_none());
    drop(third);
    drop(frame);
    assert_eq!(pool.available(), 3);
    assert!(second.space().is_some(), "alone again");
    drop(second);
    assert_eq!(pool.available(), 4);
}

#[test]
fn handles_have_lengths_of_their_own() {
    let pool = pool();
    let frame = pool.copy(b"hello").unwrap();
    let mut shared = frame.share();
    shared.set_len(2);
    assert_eq!((frame.bytes(), shared.bytes()), (&b"hello"[..], &b"he"[..]));
}

#[test]
fn a_clone_is_the_same_pool() {
    let (pool, other) = (pool(), Pool::heap(LAYOUT).unwrap());
    let frame = pool.clone().take().unwrap();
    assert!(pool.owns(&frame) && !other.owns(&frame));
    assert_eq!((pool.available(), other.available()), (3, 4));
}

#[test]
fn frames_outlive_their_pool() {
    let pool = pool();
    let frame = pool.copy(b"still here").unwrap();
    let shared = frame.share();
    drop(pool);
    drop(frame);
    assert_eq!(shared.bytes(), b"still here");
}

#[test]
fn the_memory_goes_with_the_last_of_pool_and_frames() {
    let (pool, memory) = watched(LAYOUT);
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    drop(pool.clone());
    drop(pool);
    assert!(!is_gone(&memory));
    let last = frames.into_iter().next_back().unwrap();
    assert!(!is_gone(&memory));
    drop(last);
    assert!(is_gone(&memory));

    let (pool, memory) = watched(LAYOUT);
    drop(pool.take());
    assert!(!is_gone(&memory));
    drop(pool);
    assert!(is_gone(&memory));
}

#[test]
fn a_raw_handle_counts() {
    let (pool, memory) = watched(LAYOUT);
    let frame = pool.copy(b"sent, and kept to be sent again").unwrap();
    let raw = frame.share().into_raw();
    assert_eq!((raw.offset, raw.len as usize), (frame.offset(), frame.bytes().len()));
    assert!(!frame.is_unique(), "the NIC reads it");
    drop(frame);
    assert_eq!(pool.available(), 3, "the NIC still has it");
    // SAFETY: once for the one `into_raw`.
    let back = unsafe { pool.from_raw_at(raw.index, raw.start, raw.len) };
    assert_eq!(back.bytes(), b"sent, and kept to be sent again");
    drop(back);
    assert_eq!(pool.available(), 4);
    drop(pool);
    assert!(is_gone(&memory));
}

#[test]
fn a_nic_may_put_the_frame_elsewhere_in_its_chunk() {
    let pool = pool();
    let mut frame = pool.take().unwrap();
    frame.space().unwrap()[8..12].copy_from_slice(b"here");
    let raw = frame.into_raw();
    // SAFETY: once for the one `into_raw`; 32 + 8 + 4 bytes are in the chunk.
    let mut moved = unsafe { pool.from_raw_at(raw.index, raw.start + 8, 4) };
    assert_eq!((moved.bytes(), moved.room(), moved.offset()), (&b"here"[..], 88, raw.offset + 8));
    assert_eq!(moved.space().unwrap().len(), 88);
}

#[test]
fn layouts_that_make_no_sense_are_refused() {
    let layout = |frames, stride, headroom| Pool::heap(Layout { frames, stride, headroom }).map(|_| ());
    assert_eq!(layout(0, 128, 0), Err(LayoutError::Empty));
    assert_eq!(layout(1 << 32, 1, 0), Err(LayoutError::TooMany(1 << 32)));
    assert_eq!(layout(1, 32, 32), Err(LayoutError::Chunk { stride: 32, headroom: 32 }));
    assert_eq!(layout(1, 1 << 32, 0), Err(LayoutError::Chunk { stride: 1 << 32, headroom: 0 }));
    let huge = (Layout::MAX_FRAMES, u32::MAX as usize);
    assert_eq!(layout(huge.0, huge.1, 0), Err(LayoutError::Memory { frames: huge.0, stride: huge.1 }));
}

#[test]
fn fetching_the_next_frame_changes_nothing() {
    let pool = Pool::heap(Layout { frames: 1, stride: 256, headroom: 0 }).unwrap();
    pool.prefetch_next(256);
    pool.prefetch_next(100_000);
    let frame = pool.take().expect("the only one");
    pool.prefetch_next(256);
    assert_eq!((pool.available(), frame.index()), (0, 0));
}
