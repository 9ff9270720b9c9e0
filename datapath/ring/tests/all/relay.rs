//! Frames from a lane into another one.
#![cfg(not(loom))]

use am_ring::lane::{LaneLayout, Peeked, Receiver, Relayed};

use crate::lane::{PAIR, frame, lane, take};

const HEAD: usize = 60;

/// The next frame and its head.
fn look(receiver: &mut Receiver) -> ([u8; HEAD], usize) {
    let Peeked::Frame(len) = receiver.peek() else { panic!("no frame") };
    let mut head = [0; HEAD];
    assert!(receiver.read_head(&mut head, len));
    (head, len)
}

#[test]
fn frames_of_every_length_arrive_intact() {
    let ((mut sender, mut near, _), (mut far, mut receiver, _)) = (lane(3000).unwrap(), lane(3000).unwrap());
    for len in (HEAD..=3000).step_by(if cfg!(miri) { 97 } else { 1 }) {
        sender.push(&frame(len as u64, len)).unwrap();
        sender.publish();
        let (head, found) = look(&mut near);
        assert_eq!((&head[..], found), (&frame(len as u64, len)[..HEAD], len));
        assert_eq!(far.relay(&mut near, &head, len), Relayed::Moved);
        assert_eq!(near.peek(), Peeked::Nothing);
        assert!(far.publish());
        assert_eq!(take(&mut receiver), Some(frame(len as u64, len)), "{len}");
    }
}

#[test]
fn what_was_read_of_the_head_arrives_whatever_its_sender_writes_meanwhile() {
    let ((mut sender, mut near, memory), (mut far, mut receiver, _)) = (lane(3000).unwrap(), lane(3000).unwrap());
    sender.push(&frame(1000, 1000)).unwrap();
    sender.publish();
    let (head, len) = look(&mut near);
    // All bytes of records, but for the first length.
    (388..LaneLayout::least(3000).unwrap().bytes())
        .step_by(4)
        .for_each(|at| memory.word(at).store(u32::MAX, std::sync::atomic::Ordering::Relaxed));
    assert_eq!(far.relay(&mut near, &head, len), Relayed::Moved);
    far.publish();
    let arrived = take(&mut receiver).unwrap();
    assert_eq!((&arrived[..HEAD], arrived.len()), (&head[..], 1000));
    assert!(arrived[HEAD..].iter().all(|byte| *byte == 0xff), "its own bytes are its own matter");
}

#[test]
fn a_frame_without_room_is_lost_and_the_next_one_is_not() {
    let ((mut sender, mut near, _), (mut far, mut receiver, _)) = (lane(3000).unwrap(), lane(100).unwrap());
    for (len, expected) in [(101, Relayed::Full), (100, Relayed::Moved)] {
        sender.push(&frame(len as u64, len)).unwrap();
        sender.publish();
        let (head, len) = look(&mut near);
        assert_eq!(far.relay(&mut near, &head, len), expected);
    }
    // What fills the lane is lost; what was in it stays.
    let mut moved = 1;
    for _ in 0..100 {
        sender.push(&frame(100, 100)).unwrap();
        sender.publish();
        let (head, len) = look(&mut near);
        moved += usize::from(far.relay(&mut near, &head, len) == Relayed::Moved);
    }
    far.publish();
    assert!((2..100).contains(&moved), "{moved}");
    assert_eq!(std::iter::from_fn(|| take(&mut receiver)).filter(|taken| *taken == frame(100, 100)).count(), moved);
}

#[test]
fn a_frame_of_a_session_that_has_ended_does_not_arrive() {
    let ((mut sender, mut near, _), (mut far, mut receiver, _)) = (lane(3000).unwrap(), lane(3000).unwrap());
    sender.push(&frame(100, 100)).unwrap();
    sender.publish();
    let (head, len) = look(&mut near);
    sender.offer(PAIR);
    assert_eq!(far.relay(&mut near, &head, len), Relayed::Gone);
    assert_eq!(far.relay(&mut near, &head, len), Relayed::Gone, "nothing was found since");
    assert!(!far.publish(), "nothing is there");
    assert!(near.accept(PAIR));
    sender.push(&frame(200, 200)).unwrap();
    sender.publish();
    assert_eq!(far.relay(&mut near, &head, len), Relayed::Gone, "no look, no frame");
    let (head, len) = look(&mut near);
    assert_eq!(far.relay(&mut near, &head, 100), Relayed::Gone, "another length than it has");
    assert_eq!(far.relay(&mut near, &head, len), Relayed::Moved);
    far.publish();
    assert_eq!(take(&mut receiver), Some(frame(200, 200)));
}
