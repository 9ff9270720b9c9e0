use super::*;
use am_wire::{Buffer, Class, Flow};

struct EmptyBuffer(bool);

impl Buffer for EmptyBuffer {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn space(&mut self) -> Option<&mut [u8]> {
        None
    }
    fn set_len(&mut self, _: usize) {}
    fn share(&self) -> Self {
        EmptyBuffer(self.0)
    }
}

const FIRST: Seq = Seq(u32::MAX - 4);

struct Fixture {
    queue: SendQueue,
    slots: Slots<EmptyBuffer>,
}

impl Fixture {
    /// A queue with `credit`, and `count` messages pushed.
    fn new(credit: u32, count: u32) -> Fixture {
        let mut bench = Fixture { queue: SendQueue::new(FIRST), slots: Slots::new(1024) };
        bench.queue.allow(FIRST.plus(credit));
        for _ in 0..count {
            let link = bench.slots.free.pop().expect("a free slot");
            let slot = &mut bench.slots[link];
            (slot.frame, slot.flow, slot.class) = (Some(EmptyBuffer(true)), Flow::NODE, Class::Request);
            bench.queue.push(&mut bench.slots, link);
        }
        bench.queue.queue_allowed(&mut bench.slots);
        bench
    }

    /// Send what is ready, at this time. Returns the numbers sent, counted from the first.
    fn transmit(&mut self, at: u64) -> Vec<i32> {
        let mut sent = Vec::new();
        while let Some(link) = self.slots.ready.pop_front() {
            let slot = &mut self.slots[link];
            slot.queued = false;
            if slot.leaves != Leaves::Not {
                (slot.times_sent, slot.sent_at) = (slot.times_sent + 1, Time(at));
                sent.push(slot.seq.since(FIRST));
            } else {
                self.slots.free_popped(link);
            }
        }
        sent
    }

    /// The receiver rejects this one, counted from the first.
    fn reject(&mut self, number: i32) -> bool {
        self.queue.reject(&mut self.slots, FIRST.plus(number as u32)) > 0
    }

    /// Send lost messages before `last` again, by this rule.
    fn resend_lost(&mut self, last: u32, rule: LossRule) -> LostMessages {
        self.queue.resend_lost(&mut self.slots, FIRST.plus(last), &rule)
    }

    fn acknowledge(&mut self, accepted: u32) -> AckProgress {
        self.queue.acknowledge(&mut self.slots, FIRST.plus(accepted))
    }
}

#[test]
fn messages_without_credit_wait_in_order() {
    let mut bench = Fixture::new(3, 5);
    assert_eq!(bench.queue.credit(), 0);
    assert_eq!(bench.transmit(1), [0, 1, 2]);
    bench.queue.allow(FIRST.plus(4));
    bench.queue.queue_allowed(&mut bench.slots);
    assert_eq!(bench.transmit(2), [3]);
    bench.queue.allow(FIRST.plus(2));
    assert_eq!(bench.queue.limit, FIRST.plus(4), "granted credit is not withdrawn");
}

#[test]
fn the_window_bounds_the_messages_in_flight() {
    let mut bench = Fixture::new(WINDOW as u32 + 100, WINDOW as u32 + 100);
    assert_eq!(bench.transmit(1).len(), WINDOW);
    bench.acknowledge(10);
    bench.queue.queue_allowed(&mut bench.slots);
    assert_eq!(bench.transmit(2).len(), 10);
}

#[test]
fn acknowledged_slots_are_free_again() {
    let mut bench = Fixture::new(8, 8);
    bench.transmit(5);
    let progress = bench.acknowledge(5);
    assert_eq!(progress, AckProgress { acked: 5, closed_gap: ClosedGap::No, sample: Some(Time(5)) });
    assert_eq!(bench.slots.free.len(), 1024 - 3);
    assert_eq!(bench.acknowledge(5), AckProgress::default(), "old news");
    assert_eq!(bench.acknowledge(3), AckProgress::default(), "older news");
    assert_eq!(bench.acknowledge(9), AckProgress::default(), "news of what was never sent");
    assert_eq!(bench.acknowledge(8).acked, 3);
    assert_eq!((bench.slots.free.len(), bench.queue.in_flight()), (1024, false));
}

/// Without a tolerance; a message sent again counts as lost at an age of 15.
fn rule_at(now: u64) -> LossRule {
    LossRule { now: Time(now), tolerance: 0, min_resend_age: 15, doubted: Some(FIRST.plus(1)) }
}

#[test]
fn a_message_overtaken_by_three_is_lost() {
    let mut bench = Fixture::new(8, 8);
    bench.transmit(5);
    // 0, 2 and 3 arrived. 1 may still be in flight.
    bench.acknowledge(1);
    assert_eq!(bench.queue.acknowledge_selected(&mut bench.slots, FIRST.plus(1), 0b11), (2, None));
    assert_eq!(bench.queue.last_selected(&bench.slots), Some(FIRST.plus(3)));
    assert_eq!(bench.resend_lost(3, rule_at(10)).count, 0);
    // 4 as well: 1 is lost.
    assert_eq!(bench.queue.acknowledge_selected(&mut bench.slots, FIRST.plus(1), 0b111), (1, None));
    let lost = bench.resend_lost(4, rule_at(10));
    let first_time = Some((FIRST.plus(1), Time(5)));
    assert_eq!(lost, LostMessages { count: 1, first_time, has_doubted: true, next: Time::NEVER });
    assert_eq!(bench.transmit(20), [1]);
    let again = bench.resend_lost(4, rule_at(34));
    let wait = |until| LostMessages { count: 0, first_time: None, has_doubted: false, next: Time(until) };
    assert_eq!(again, wait(35), "it left after those that have arrived");
    assert_eq!(bench.resend_lost(4, rule_at(35)).count, 1, "lost once more");
    assert_eq!(bench.transmit(40), [1]);
    let progress = bench.acknowledge(5);
    let none = AckProgress { acked: 1, closed_gap: ClosedGap::Repaired, sample: None };
    assert_eq!(progress, none, "no sample from what was sent twice");
}

#[test]
fn with_a_tolerance_age_decides() {
    let mut bench = Fixture::new(8, 8);
    let rule = |now| LossRule { now: Time(now), tolerance: 100, min_resend_age: 150, doubted: None };
    bench.transmit(5);
    bench.queue.acknowledge_selected(&mut bench.slots, FIRST, 0b100_1111);
    let wait = LostMessages { count: 0, first_time: None, has_doubted: false, next: Time(105) };
    assert_eq!(bench.resend_lost(7, rule(104)), wait, "however many have passed it");
    let lost = bench.resend_lost(7, rule(105));
    assert_eq!((lost.count, lost.first_time), (3, Some((FIRST, Time(5)))), "and however few");
    assert_eq!(bench.transmit(105), [0, 5, 6]);
    assert_eq!(bench.resend_lost(7, rule(254)).next, Time(255), "sent again, it has a round trip at least");
    assert_eq!(bench.acknowledge(5).closed_gap, ClosedGap::Repaired);
}

#[test]
fn late_messages_differ_from_repairs() {
    let mut bench = Fixture::new(8, 4);
    bench.transmit(5);
    bench.queue.acknowledge_selected(&mut bench.slots, FIRST.plus(1), 0b11);
    assert_eq!(bench.acknowledge(4).closed_gap, ClosedGap::Late(Time(5)));
    let mut bench = Fixture::new(8, 6);
    bench.transmit(5);
    let mut select = |sack| bench.queue.acknowledge_selected(&mut bench.slots, FIRST, sack);
    assert_eq!(select(0b00100), (1, None));
    assert_eq!(select(0b11101), (3, Some(Time(5))), "1 came after 3");
    assert_eq!(select(0b11111), (1, Some(Time(5))));
}

#[test]
fn a_timeout_sends_the_oldest_again_and_nothing_twice() {
    let mut bench = Fixture::new(8, 8);
    bench.transmit(5);
    let mut again = |doubted| {
        let doubted = Some(FIRST.plus(doubted));
        bench.queue.resend_oldest(&mut bench.slots, 3, doubted)
    };
    assert!(!again(3) && again(5), "those queued are passed over");
    assert_eq!(bench.transmit(9), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_message_acknowledged_while_queued_is_not_sent() {
    let mut bench = Fixture::new(4, 4);
    bench.transmit(5);
    bench.queue.resend_oldest(&mut bench.slots, 4, None);
    bench.acknowledge(3);
    assert_eq!(bench.slots.free.len(), 1020, "queued slots are not used again yet");
    assert_eq!(bench.transmit(6), [3]);
    assert_eq!(bench.slots.free.len(), 1023);
}

#[test]
fn draining_gives_everything_oldest_first() {
    let mut bench = Fixture::new(2, 4);
    bench.transmit(5);
    let (mut link, unacked) = bench.queue.drain();
    let mut numbers = Vec::new();
    while link != NO_SLOT {
        numbers.push(bench.slots[link].seq.since(FIRST));
        link = bench.slots[link].next;
    }
    assert_eq!((numbers, unacked), (vec![0, 1, 2, 3], FIRST));
}

#[test]
fn a_message_behind_a_gap_gives_no_sample() {
    let mut bench = Fixture::new(10, 4);
    bench.transmit(1);
    bench.queue.resend_oldest(&mut bench.slots, 1, None);
    bench.transmit(100);
    assert_eq!(bench.acknowledge(4), AckProgress { acked: 4, closed_gap: ClosedGap::No, sample: None });
}

#[test]
fn rejected_messages_wait_for_their_pause() {
    let mut bench = Fixture::new(8, 6);
    bench.transmit(1);
    assert!(bench.reject(0) && bench.reject(2));
    assert!(!bench.reject(2), "twice");
    assert!(!bench.reject(-1) && !bench.reject(6) && !bench.reject(1 << 20), "never sent");
    let accepted = FIRST;
    assert_eq!(bench.queue.acknowledge_selected(&mut bench.slots, accepted, 0b11100).0, 3, "3, 4 and 5");
    bench.resend_lost(5, rule_at(1));
    assert_eq!(bench.transmit(2), [1], "0 and 2 are not lost");
    bench.queue.resend_oldest(&mut bench.slots, 9, None);
    assert_eq!(bench.transmit(3), [1]);
    assert_eq!(bench.queue.oldest_in_flight(&bench.slots).map(|link| bench.slots[link].seq), Some(FIRST.plus(1)));
    assert_eq!(bench.queue.resend(&mut bench.slots, 1, |slot| Some(slot.rejected)), 1);
    assert!(!bench.reject(0), "it is about to be sent again");
    assert_eq!(bench.transmit(4), [0]);
    assert!(bench.reject(0), "and is rejected once more");
}

#[test]
fn a_slot_forgets_that_its_message_was_rejected() {
    let mut bench = Fixture::new(2, 2);
    bench.transmit(1);
    assert!(bench.reject(0) && bench.reject(1));
    assert!(bench.queue.oldest_in_flight(&bench.slots).is_none(), "no message waits for an acknowledgement");
    bench.acknowledge(2);
    assert!(!bench.reject(0) && !bench.reject(1), "acknowledged: another copy was taken");
    assert!((0..1024).all(|link| !bench.slots[link].rejected));
}

/// One flipped bit makes such numbers. An acknowledgement that parses is not yet believed.
#[test]
fn numbers_half_the_circle_away_change_nothing() {
    let mut bench = Fixture::new(8, 4);
    bench.transmit(1);
    bench.acknowledge(4);
    for far in [1 << 31, (1 << 31) + 4, (1 << 31) - 1, u32::MAX] {
        assert_eq!(bench.acknowledge(far).acked, 0);
        bench.queue.acknowledge_selected(&mut bench.slots, FIRST.plus(far), u64::MAX);
        bench.queue.allow(FIRST.plus(far));
    }
    assert_eq!(bench.queue.credit(), 4);
}
