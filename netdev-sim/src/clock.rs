//! Virtual time, and the queue of events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// A microsecond.
pub const US: Nanos = 1_000;

/// A millisecond.
pub const MS: Nanos = 1_000_000;

/// A virtual clock and its queue of events. Events of the same time happen in the order in which they were scheduled, so
/// a run does not depend on the heap's order.
///
/// ```
/// let mut clock = am_netdev_sim::EventQueue::default();
/// clock.schedule(20, "second");
/// clock.schedule(10, "first");
/// assert_eq!((clock.pop(), clock.now()), (Some("first"), 10));
/// ```
#[derive(Debug)]
pub struct EventQueue<E> {
    now: Nanos,
    count: u64,
    events: BinaryHeap<TimedEvent<E>>,
}

#[derive(Debug)]
struct TimedEvent<E> {
    at: Nanos,
    number: u64,
    event: E,
}

impl<E> TimedEvent<E> {
    /// The heap has the largest key on top, so the earliest event has the largest key.
    fn key(&self) -> (Nanos, u64) {
        (Nanos::MAX - self.at, u64::MAX - self.number)
    }
}

impl<E> PartialEq for TimedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for TimedEvent<E> {}

impl<E> PartialOrd for TimedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for TimedEvent<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { now: 0, count: 0, events: BinaryHeap::new() }
    }
}

impl<E> EventQueue<E> {
    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Schedule `event` for the time `at`, or for now if `at` is past.
    pub fn schedule(&mut self, at: Nanos, event: E) {
        self.count += 1;
        self.events.push(TimedEvent { at: at.max(self.now), number: self.count, event });
    }

    /// Allocate room for this many events.
    pub fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// Set the clock to `to`. No event is scheduled before.
    pub fn advance_to(&mut self, to: Nanos) {
        debug_assert!(self.next_time().is_none_or(|next| next >= to), "{:?} comes first", self.next_time());
        self.now = self.now.max(to);
    }

    /// The time of the next event.
    pub fn next_time(&self) -> Option<Nanos> {
        self.events.peek().map(|entry| entry.at)
    }

    /// Take the next event, and set the clock to its time.
    pub fn pop(&mut self) -> Option<E> {
        let TimedEvent { at, event, .. } = self.events.pop()?;
        self.now = at;
        Some(event)
    }

    /// How many events were scheduled since the start.
    pub fn scheduled_count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_moment_keeps_its_order() {
        let mut clock = EventQueue::default();
        (0..100).for_each(|n| clock.schedule(7, n));
        clock.schedule(3, 1000);
        assert_eq!(clock.pop(), Some(1000));
        assert_eq!(std::iter::from_fn(|| clock.pop()).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn time_does_not_go_back() {
        let mut clock = EventQueue::default();
        clock.schedule(50, ());
        clock.pop();
        clock.schedule(10, ());
        assert_eq!(clock.next_time(), Some(50));
    }
}
