//! The queue under the model checker; the command is in `loom_pool.rs`.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use am_ring::spsc::{self, Consumer};
use loom::thread;

/// Pop until there are so many.
fn collect(consumer: &mut Consumer<Box<u32>>, wanted: usize) -> Vec<u32> {
    let mut got = Vec::new();
    while got.len() < wanted {
        match consumer.pop() {
            Some(value) => got.push(*value),
            None => thread::yield_now(),
        }
        consumer.release();
    }
    got
}

#[test]
fn values_arrive_in_order_through_a_queue_that_is_too_small() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::queue(2);
        let far = thread::spawn(move || collect(&mut consumer, 3));
        for number in 0..3 {
            let mut value = Box::new(number);
            while let Err(back) = producer.push(value) {
                value = back;
                producer.submit();
                thread::yield_now();
            }
        }
        producer.submit();
        assert_eq!(far.join().unwrap(), [0, 1, 2]);
    });
}

#[test]
fn a_batch_is_seen_whole() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::queue(4);
        let far = thread::spawn(move || {
            (0..3).for_each(|number| producer.push(Box::new(number)).unwrap());
            producer.submit();
        });
        let there = consumer.peek();
        assert!(there == 0 || there == 3, "{there} of a batch of three");
        far.join().unwrap();
        assert_eq!(collect(&mut consumer, 3), [0, 1, 2]);
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whichever_side_goes_first_every_value_is_dropped_once() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = spsc::queue(4);
        let counted = drops.clone();
        let far = thread::spawn(move || {
            (0..3).for_each(|_| assert!(producer.push(Counted(counted.clone())).is_ok()));
        });
        drop(consumer.pop());
        drop(consumer);
        far.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    });
}
