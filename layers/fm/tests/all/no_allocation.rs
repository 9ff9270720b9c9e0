//! No allocation per message after set-up, in whatever way it is sent.

use std::time::{Duration, Instant};

use crate::common::{LONG, pair};
use am_fm::{Fm, HandlerId, Rank};

const COUNT: HandlerId = HandlerId(0);
const ASK: HandlerId = HandlerId(1);
const MORE: HandlerId = HandlerId(2);

/// Node 1 counts, answers, or sends two messages of which one is no answer.
fn nodes() -> (Fm<u64>, Fm<u64>) {
    let (mut zero, mut one) = pair::<u64, u64>();
    zero.on(COUNT, |count, _| *count += 1);
    one.on(COUNT, |count, _| *count += 1);
    one.on(ASK, |count, message| {
        *count += 1;
        message.send_4(message.source(), COUNT, message.words()).expect("an answer");
    });
    one.on(MORE, |count, message| {
        *count += 1;
        message.send(message.source(), COUNT, message.bytes()).expect("an answer");
        message.send_4(message.source(), COUNT, [0; 4]).expect("another message");
    });
    let start = Instant::now();
    while zero.meet(Duration::ZERO).is_err() | one.meet(Duration::ZERO).is_err() {
        assert!(start.elapsed() < LONG);
    }
    (zero, one)
}

/// This number of messages, a few under way at a time, and what they bring back.
fn stream(zero: &mut Fm<u64>, one: &mut Fm<u64>, handler: HandlerId, bytes: &[u8], count: u64, back: u64) {
    let (mut came, mut handled) = (0, 0);
    let start = Instant::now();
    for sent in 0..count {
        zero.send(&mut came, Rank(1), handler, bytes).expect("sent");
        while handled + 20 < sent || came + 20 * back < back * sent {
            one.extract(&mut handled);
            zero.extract(&mut came);
            assert!(start.elapsed() < LONG, "{sent} sent, {handled} handled, {came} came back");
        }
    }
    while handled < count || came < back * count {
        one.extract(&mut handled);
        zero.extract(&mut came);
        assert!(start.elapsed() < LONG, "{handled} of {count} handled, {came} came back");
    }
}

fn allocations(handler: HandlerId, bytes: &[u8], back: u64) -> u64 {
    let (mut zero, mut one) = nodes();
    // Queues grow to the size that they stay at.
    stream(&mut zero, &mut one, handler, bytes, 5000, back);
    allocation_counter::measure(|| stream(&mut zero, &mut one, handler, bytes, 50_000, back)).count_total
}

#[test]
fn nothing_is_allocated_for_a_message() {
    assert_eq!(allocations(COUNT, b"", 0), 0);
    assert_eq!(allocations(COUNT, &[7; 1400], 0), 0);
    assert_eq!(allocations(ASK, b"", 1), 0);
    assert_eq!(allocations(MORE, &[7; 1400], 2), 0);
}
