//! Lanes under the model checker; the command is in `loom_pool.rs`.
#![cfg(loom)]

use am_ring::lane::{Burst, Duplex, Holds, LaneCounters, LaneLayout, Pair, Peeked, Receiver, Relayed, Sender, Shared};
use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use loom::thread;

const LONGEST: usize = 60;
const PAIR: Pair = Pair::new(1, 2);

fn shape() -> LaneLayout {
    LaneLayout::least(LONGEST).unwrap()
}

fn lane() -> (Sender, Receiver, Shared) {
    let memory = Shared::heap(shape().bytes());
    (Sender::new(memory.clone(), shape()), Receiver::new(memory.clone(), shape()), memory)
}

/// A frame whose every byte says which it is.
fn push(sender: &mut Sender, number: u8) -> bool {
    sender.push(&[number; 8]).is_ok()
}

fn take(receiver: &mut Receiver) -> Option<[u8; 8]> {
    let Peeked::Frame(8) = receiver.peek() else { return None };
    let mut bytes = [0; 8];
    receiver.take(&mut bytes).then_some(bytes)
}

/// Take this number; each is whole.
fn collect(receiver: &mut Receiver, pair: Pair, wanted: usize) -> Vec<u8> {
    let mut got = vec![];
    while got.len() < wanted {
        match receiver.accept(pair).then(|| take(receiver)).flatten() {
            Some(bytes) => {
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn: {bytes:?}");
                got.push(bytes[0]);
            }
            None => thread::yield_now(),
        }
    }
    got
}

/// Two frames that become visible together, and one more.
fn three_arrive(mut sender: Sender, mut receiver: Receiver) {
    let far = thread::spawn(move || collect(&mut receiver, PAIR, 3));
    assert!(push(&mut sender, 11) && push(&mut sender, 12));
    sender.publish();
    assert!(push(&mut sender, 13));
    sender.publish();
    assert_eq!(far.join().unwrap(), [11, 12, 13]);
}

#[test]
fn frames_arrive_whole_and_in_order() {
    loom::model(|| {
        let (mut sender, receiver, _) = lane();
        sender.offer(PAIR);
        three_arrive(sender, receiver);
    });
}

/// From the second lap on, the sender does not clear the word behind a record of one line.
#[test]
fn words_of_the_lap_before_are_no_records() {
    loom::model(|| {
        let (mut sender, mut receiver, _) = lane();
        sender.offer(PAIR);
        assert!(receiver.accept(PAIR));
        for number in 0..8 {
            assert!(sender.push(&[number; LONGEST]).is_ok());
            sender.publish();
            assert_eq!(receiver.peek(), Peeked::Frame(LONGEST));
            assert!(receiver.take(&mut [0; LONGEST]));
        }
        three_arrive(sender, receiver);
    });
}

/// As the next test but one, with frames that fill a line, which have a short way.
#[test]
fn a_session_that_begins_under_a_burst_is_never_mixed_with_the_one_before() {
    // The smallest lane whose lines are not given back one by one: only then is the way short.
    let shape = LaneLayout::least(2 * LONGEST).unwrap();
    loom::model(move || {
        let [memory, own] = [(); 2].map(|()| Shared::heap(shape.bytes()));
        let mut sender = Sender::new(memory.clone(), shape);
        sender.offer(PAIR);
        assert!(sender.push(&[1; LONGEST]).is_ok());
        sender.publish();
        let mut near = Duplex::new(own, memory.clone(), shape);
        near.connect(PAIR, PAIR);
        assert_eq!(near.look(), Peeked::Frame(LONGEST));
        let far = thread::spawn(move || {
            let mut sender = Sender::new(memory, shape);
            sender.offer(Pair::new(3, 2));
            assert!(sender.push(&[7; LONGEST]).is_ok());
            sender.publish();
        });
        let pool = Pool::heap(Layout { frames: 2, stride: 64, headroom: 0 }).unwrap();
        let received: Option<Frame> = near.next(&mut Burst::default(), &pool, &mut LaneCounters::default());
        if let Some(frame) = received {
            // The model checker copies no more of a line.
            assert_eq!(frame.bytes()[..8], [1; 8], "of the first session, or of none");
        }
        far.join().unwrap();
    });
}

#[test]
fn a_line_is_written_again_only_after_it_was_read() {
    loom::model(|| {
        let (mut sender, mut receiver, _) = lane();
        sender.offer(PAIR);
        assert!(receiver.accept(PAIR));
        let room = (0..).take_while(|number| push(&mut sender, *number)).count();
        sender.publish();
        let far = thread::spawn(move || {
            let first = take(&mut receiver);
            (first, receiver)
        });
        // Into the line that was read first, as soon as it is given back.
        let pushed = push(&mut sender, 100);
        sender.publish();
        let (first, mut receiver) = far.join().unwrap();
        assert_eq!(first, Some([0; 8]));
        let rest = collect(&mut receiver, PAIR, room - 1 + usize::from(pushed));
        assert!(rest.iter().take(room - 1).copied().eq(1..room as u8), "{rest:?}");
    });
}

#[test]
fn a_session_that_begins_under_a_reader_is_never_mixed_with_the_one_before() {
    loom::model(|| {
        let (mut sender, mut receiver, memory) = lane();
        sender.offer(PAIR);
        assert!(push(&mut sender, 1));
        sender.publish();
        assert!(receiver.accept(PAIR));
        // The sender is replaced while the receiver reads.
        let anew = Pair::new(3, 2);
        let far = thread::spawn(move || {
            let mut sender = Sender::new(memory, shape());
            sender.offer(anew);
            assert!(push(&mut sender, 7));
            sender.publish();
        });
        if let Some(bytes) = take(&mut receiver) {
            assert_eq!(bytes, [1; 8], "of the first session, or of none");
        }
        assert_eq!(collect(&mut receiver, anew, 1), [7]);
        far.join().unwrap();
    });
}

#[test]
fn a_session_that_begins_under_a_relay_is_never_mixed_with_the_one_before() {
    loom::model(|| {
        let (mut sender, mut near, memory) = lane();
        sender.offer(PAIR);
        assert!(push(&mut sender, 1));
        sender.publish();
        assert!(near.accept(PAIR));
        let far = thread::spawn(move || {
            let mut sender = Sender::new(memory, shape());
            sender.offer(Pair::new(3, 2));
            assert!(push(&mut sender, 7));
            sender.publish();
        });
        let (mut to, mut receiver, _) = lane();
        to.offer(PAIR);
        assert!(receiver.accept(PAIR));
        let mut head = [0; 4];
        if near.peek() == Peeked::Frame(8)
            && near.read_head(&mut head, 8)
            && to.relay(&mut near, &head, 8) == Relayed::Moved
        {
            to.publish();
            assert_eq!(take(&mut receiver), Some([1; 8]), "of the first session, or of none");
        }
        far.join().unwrap();
    });
}

#[test]
fn credit_of_another_session_is_not_taken() {
    loom::model(|| {
        let (mut sender, mut receiver, memory) = lane();
        // A receiver of before gave much back.
        sender.offer(Pair::new(1, 9));
        assert!(receiver.accept(Pair::new(1, 9)));
        for number in 0..3 {
            assert!(push(&mut sender, number));
            sender.publish();
            assert_eq!(take(&mut receiver), Some([number; 8]));
        }
        let mut receiver = Receiver::new(memory, shape());
        sender.offer(PAIR);
        let room = (0..).take_while(|number| push(&mut sender, *number)).count();
        assert_eq!(room, 7, "all lines but one");
        sender.publish();
        let far = thread::spawn(move || {
            receiver.accept(PAIR);
            receiver
        });
        assert!(!push(&mut sender, 50), "nothing was given back");
        let mut receiver = far.join().unwrap();
        assert_eq!(collect(&mut receiver, PAIR, room), (0..room as u8).collect::<Vec<_>>());
    });
}

#[test]
fn a_lane_goes_to_another_sender_only_when_all_that_the_first_one_left_was_read() {
    loom::model(|| {
        let (mut sender, mut receiver, memory) = lane();
        let holds = Holds::new(Shared::heap(Holds::bytes(1)));
        sender.offer(PAIR);
        assert!(receiver.accept(PAIR));
        holds.keep(0, 1);
        assert!(push(&mut sender, 1) && push(&mut sender, 2));
        sender.publish();
        drop(sender);
        let reads = holds.clone();
        let far = thread::spawn(move || {
            let got = [take(&mut receiver), take(&mut receiver)].map(|bytes| bytes.map(|bytes| bytes[0]));
            assert_eq!(receiver.peek(), Peeked::Nothing);
            reads.release(0, 1);
            (got, receiver)
        });
        let (anew, is_free) = (Pair::new(3, 2), !holds.is_kept(0, 1));
        let mut next = Sender::new(memory, shape());
        if is_free {
            next.offer(anew);
            assert!(push(&mut next, 7));
            next.publish();
        }
        let (got, mut receiver) = far.join().unwrap();
        assert_eq!(got, [Some(1), Some(2)]);
        if is_free {
            assert_eq!(collect(&mut receiver, anew, 1), [7]);
        }
    });
}
