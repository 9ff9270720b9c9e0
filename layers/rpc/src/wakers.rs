//! Those who wait for one thing.

use std::collections::BTreeMap;
use std::task::Waker;

/// A future's place among those that wait, once it was polled.
pub(crate) type Place = Option<u64>;

/// The wakers of futures that wait for one thing. A future that is dropped takes its waker out.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    added: u64,
}

impl Wakers {
    /// Wake this for the future with this place. Returns the waker that it had before, which may run code of the program when it is dropped.
    #[must_use]
    pub(crate) fn add(&mut self, place: &mut Place, waker: &Waker) -> Option<Waker> {
        let number = *place.get_or_insert_with(|| {
            self.added += 1;
            self.added
        });
        if self.waiting.get(&number).is_some_and(|old| old.will_wake(waker)) {
            return None;
        }
        self.waiting.insert(number, waker.clone())
    }

    /// This future waits no more.
    #[must_use]
    pub(crate) fn remove(&mut self, place: &mut Place) -> Option<Waker> {
        self.waiting.remove(&place.take()?)
    }

    /// All of them: none waits any more.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_has_one_waker_and_takes_it_out() {
        let (mut wakers, mut first, mut second) = (Wakers::default(), None, None);
        assert!(wakers.add(&mut first, Waker::noop()).is_none() && wakers.add(&mut second, Waker::noop()).is_none());
        assert!(wakers.add(&mut first, Waker::noop()).is_none(), "it is the same");
        assert_eq!(wakers.waiting.len(), 2);
        assert!(wakers.remove(&mut first).is_some() && wakers.remove(&mut first).is_none());
        assert_eq!((wakers.take().count(), wakers.take().count()), (1, 0));
        // Its place is not that of a later one.
        let mut third = None;
        _ = wakers.add(&mut third, Waker::noop());
        assert!(wakers.remove(&mut second).is_none() && wakers.remove(&mut third).is_some());
    }
}
