//! The queue, against a `VecDeque` and between two threads.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use am_ring::spsc::{self, Consumer, Producer};
use proptest::prelude::*;

const VALUES: u64 = if cfg!(miri) { 100 } else { 1_000_000 };

#[derive(Clone, Debug)]
enum Step {
    Push,
    Reserve(usize),
    Submit,
    Peek,
    Pop,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Push),
        1 => (0usize..12).prop_map(Step::Reserve),
        2 => Just(Step::Submit),
        1 => Just(Step::Peek),
        4 => Just(Step::Pop),
        2 => Just(Step::Release),
    ]
}

/// The queue as a list and three numbers.
struct Model {
    capacity: usize,
    /// Everything written and not yet popped.
    values: VecDeque<u64>,
    /// How many of those at the end are not submitted.
    hidden: usize,
    /// Popped, not released.
    popped: usize,
    next: u64,
}

impl Model {
    fn room(&self) -> usize {
        self.capacity - self.values.len() - self.popped
    }

    fn there(&self) -> usize {
        self.values.len() - self.hidden
    }

    fn step(&mut self, step: Step, producer: &mut Producer<u64>, consumer: &mut Consumer<u64>) {
        match step {
            Step::Push if self.room() == 0 => assert_eq!(producer.push(self.next), Err(self.next)),
            Step::Push => {
                assert_eq!(producer.push(self.next), Ok(()));
                self.values.push_back(self.next);
                self.hidden += 1;
                self.next += 1;
            }
            Step::Reserve(wanted) => {
                let room = producer.reserve(wanted);
                assert!(room <= self.room() && room >= wanted.min(self.room()));
            }
            Step::Submit => {
                producer.submit();
                self.hidden = 0;
            }
            Step::Peek => assert_eq!(consumer.peek(), self.there()),
            Step::Pop if self.there() == 0 => assert_eq!(consumer.pop(), None),
            Step::Pop => {
                assert_eq!(consumer.pop(), self.values.pop_front());
                self.popped += 1;
            }
            Step::Release => {
                consumer.release();
                self.popped = 0;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    #[test]
    fn a_queue_is_a_list_with_two_marks(capacity in 1usize..9, steps in prop::collection::vec(step(), 1..if cfg!(miri) { 50 } else { 200 })) {
        let (mut producer, mut consumer) = spsc::queue(capacity);
        let capacity = capacity.next_power_of_two();
        let mut model = Model { capacity, values: VecDeque::new(), hidden: 0, popped: 0, next: 0 };
        for step in steps {
            model.step(step, &mut producer, &mut consumer);
        }
    }
}

#[test]
fn everything_arrives_once_and_in_order() {
    let (mut producer, mut consumer) = spsc::queue(64);
    let far = thread::spawn(move || {
        for expected in 0..VALUES {
            let value = loop {
                match consumer.pop() {
                    Some(value) => break value,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(value, expected);
            if expected % 7 == 0 || consumer.peek() == 0 {
                consumer.release();
            }
        }
    });
    for mut value in 0..VALUES {
        let number = value;
        while let Err(back) = producer.push(value) {
            value = back;
            producer.submit();
            thread::yield_now();
        }
        if number % 5 == 0 {
            producer.submit();
        }
    }
    producer.submit();
    far.join().unwrap();
}

/// Counts its drops.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A queue of 8 with 2 values popped and not released, 2 submitted, 1 hidden.
fn half_used(drops: &Arc<AtomicUsize>) -> (Producer<Counted>, Consumer<Counted>) {
    let (mut producer, mut consumer) = spsc::queue(8);
    (0..4).for_each(|_| producer.push(Counted(drops.clone())).unwrap());
    producer.submit();
    (0..2).for_each(|_| drop(consumer.pop().unwrap()));
    producer.push(Counted(drops.clone())).unwrap();
    (producer, consumer)
}

#[test]
fn what_is_left_goes_with_the_last_side() {
    for producer_first in [true, false] {
        let drops = Arc::new(AtomicUsize::new(0));
        let (producer, consumer) = half_used(&drops);
        assert!(!producer.is_abandoned() && !consumer.is_abandoned());
        if producer_first {
            drop(producer);
            assert!(consumer.is_abandoned());
            assert_eq!(drops.load(Ordering::Relaxed), 2, "the consumer can still read the rest");
            drop(consumer);
        } else {
            drop(consumer);
            assert!(producer.is_abandoned());
            assert_eq!(drops.load(Ordering::Relaxed), 4, "nobody will read what was submitted");
            drop(producer);
        }
        assert_eq!(drops.load(Ordering::Relaxed), 5);
    }
}

#[test]
fn values_of_a_dead_producer_can_be_read() {
    let (mut producer, mut consumer) = spsc::queue(4);
    producer.push(7).unwrap();
    drop(producer);
    assert_eq!((consumer.pop(), consumer.pop()), (Some(7), None));
}

/// The other side must not take what was popped or pushed for what is there. A leak is the price.
#[cfg(not(miri))]
#[test]
fn a_forgotten_side_drops_nothing_twice() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (producer, consumer) = half_used(&drops);
    std::mem::forget(consumer);
    drop(producer);
    assert_eq!(drops.load(Ordering::Relaxed), 2, "those that were popped");
    let (producer, consumer) = half_used(&drops);
    std::mem::forget(producer);
    drop(consumer);
    assert_eq!(drops.load(Ordering::Relaxed), 2 + 4, "those that were popped or submitted");
}

/// Panics when it is dropped, once.
struct Bomb(Arc<AtomicUsize>, bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(!self.1, "this one is meant to panic");
    }
}

#[test]
fn a_value_that_panics_when_dropped_is_not_dropped_again() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut producer, consumer) = spsc::queue(4);
    (0..3).for_each(|n| assert!(producer.push(Bomb(drops.clone(), n == 0)).is_ok()));
    producer.submit();
    assert!(thread::spawn(move || drop(consumer)).join().is_err());
    drop(producer);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}
