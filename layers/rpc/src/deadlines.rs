//! What is due when.

use std::collections::BTreeMap;
use std::time::Duration;

/// Things by the time at which they are due.
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    by_time: BTreeMap<Ticket, T>,
    added: u64,
}

/// The place of a thing: its time, and a number that tells it from others of that time.
pub(crate) type Ticket = (Duration, u64);

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Deadlines { by_time: BTreeMap::new(), added: 0 }
    }
}

impl<T> Deadlines<T> {
    pub(crate) fn add(&mut self, due: Duration, what: T) -> Ticket {
        self.added += 1;
        self.by_time.insert((due, self.added), what);
        (due, self.added)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) {
        self.by_time.remove(&ticket);
    }

    /// All of them, in their order.
    pub(crate) fn into_all(self) -> impl Iterator<Item = T> {
        self.by_time.into_values()
    }

    /// When the next one is due.
    #[inline]
    pub(crate) fn next(&self) -> Option<Duration> {
        self.by_time.first_key_value().map(|(&(due, _), _)| due)
    }

    /// The next one, if it is due.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<T> {
        self.by_time.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_due_first_and_what_was_removed_never() {
        let [one, two, three] = [1, 2, 3].map(Duration::from_secs);
        let mut deadlines = Deadlines::default();
        deadlines.add(three, 'c');
        let removed = deadlines.add(two, 'x');
        deadlines.add(two, 'b');
        deadlines.add(one, 'a');
        deadlines.remove(removed);
        assert_eq!((deadlines.next(), deadlines.pop(Duration::ZERO)), (Some(one), None));
        assert_eq!(
            [one, one, three, three, three].map(|now| deadlines.pop(now)),
            [Some('a'), None, Some('b'), Some('c'), None]
        );
        assert_eq!(deadlines.next(), None);
    }
}
