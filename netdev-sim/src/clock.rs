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
/// let mut clock = am_netdev_sim::Clock::default();
/// clock.at(20, "second");
/// clock.at(10, "first");
/// assert_eq!((clock.pop(), clock.now()), (Some("first"), 10));
/// ```
#[derive(Debug)]
pub struct Clock<E> {
    now: Nanos,
    count: u64,
    events: BinaryHeap<Entry<E>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    /// The heap has the largest key on top, so the earliest event has the largest key.
    fn key(&self) -> (Nanos, u64) {
        (Nanos::MAX - self.at, u64::MAX - self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for Clock<E> {
    fn default() -> Self {
        Clock { now: 0, count: 0, events: BinaryHeap::new() }
    }
}

impl<E> Clock<E> {
    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Schedule `event` for the time `at`, or for now if `at` is past.
    pub fn at(&mut self, at: Nanos, event: E) {
        self.count += 1;
        self.events.push(Entry { at: at.max(self.now), number: self.count, event });
    }

    /// Allocate room for this many events.
    pub fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// Set the clock to `to`. No event is scheduled before.
    pub fn pass(&mut self, to: Nanos) {
        debug_assert!(self.next().is_none_or(|next| next >= to), "{:?} comes first", self.next());
        self.now = self.now.max(to);
    }

    /// The time of the next event.
    pub fn next(&self) -> Option<Nanos> {
        self.events.peek().map(|entry| entry.at)
    }

    /// Take the next event, and set the clock to its time.
    pub fn pop(&mut self) -> Option<E> {
        let Entry { at, event, .. } = self.events.pop()?;
        self.now = at;
        Some(event)
    }

    /// How many events were scheduled since the start.
    pub fn events(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_moment_keeps_its_order() {
        let mut clock = Clock::default();
        (0..100).for_each(|n| clock.at(7, n));
        clock.at(3, 1000);
        assert_eq!(clock.pop(), Some(1000));
        assert_eq!(std::iter::from_fn(|| clock.pop()).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn time_does_not_go_back() {
        let mut clock = Clock::default();
        clock.at(50, ());
        clock.pop();
        clock.at(10, ());
        assert_eq!(clock.next(), Some(50));
    }
}
