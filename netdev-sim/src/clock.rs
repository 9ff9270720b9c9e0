//! Virtual time, and the queue of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// A microsecond.
pub const US: Nanos = 1_000;

/// A millisecond.
pub const MS: Nanos = 1_000_000;

/// A virtual clock and its queue of events. Events of the same time happen in the order in which they were scheduled, so
/// a run does not depend on the heap's order.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    now: Nanos,
    /// How many events were scheduled since the start.
    pub(crate) count: u64,
    /// Each with its time and its number. No two have the same number, so events are not compared.
    events: BinaryHeap<Reverse<(Nanos, u64, E)>>,
}

impl<E: Ord> EventQueue<E> {
    /// An empty queue, at time 0.
    pub(crate) fn new() -> EventQueue<E> {
        EventQueue { now: 0, count: 0, events: BinaryHeap::new() }
    }

    /// The time.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Schedule `event` for the time `at`, or for now if `at` is past.
    pub(crate) fn schedule(&mut self, at: Nanos, event: E) {
        self.count += 1;
        self.events.push(Reverse((at.max(self.now), self.count, event)));
    }

    /// Allocate room for this many events.
    pub(crate) fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// Set the clock to `to`. No event is scheduled before.
    pub(crate) fn advance_to(&mut self, to: Nanos) {
        debug_assert!(self.next_time().is_none_or(|next| next >= to), "{:?} comes first", self.next_time());
        self.now = self.now.max(to);
    }

    /// The time of the next event.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Take the next event, and set the clock to its time.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let Reverse((at, _, event)) = self.events.pop()?;
        self.now = at;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_moment_keeps_its_order() {
        let mut clock = EventQueue::new();
        (0..100).for_each(|n| clock.schedule(7, n));
        clock.schedule(3, 1000);
        assert_eq!(clock.pop(), Some(1000));
        assert_eq!(std::iter::from_fn(|| clock.pop()).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn time_does_not_go_back() {
        let mut clock = EventQueue::new();
        clock.schedule(50, ());
        clock.pop();
        clock.schedule(10, ());
        assert_eq!(clock.next_time(), Some(50));
    }
}
