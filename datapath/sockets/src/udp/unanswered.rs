//! The added entries from which nothing has arrived since they were added. Introductions go to these, and to each of them more and more
//! seldom: many set-ups may search at once, and each asks for introductions.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The pause after the first introduction. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
const MAX_PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Introduction {
    due: Instant,
    pause: Duration,
}

/// By the key of an entry.
#[derive(Debug)]
pub(super) struct Unanswered<K>(HashMap<K, Introduction>);

impl<K> Default for Unanswered<K> {
    fn default() -> Unanswered<K> {
        Unanswered(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> Unanswered<K> {
    /// An entry was added, perhaps again.
    pub(super) fn insert(&mut self, key: K, now: Instant) {
        self.0.insert(key, Introduction { due: now, pause: FIRST_PAUSE });
    }

    /// Something has arrived from this entry, or it is no more.
    #[inline]
    pub(super) fn remove(&mut self, key: K) {
        if !self.0.is_empty() {
            self.0.remove(&key);
        }
    }

    /// Hand each entry that is due to `send`, until that returns `false`.
    pub(super) fn take_due(&mut self, now: Instant, mut send: impl FnMut(K) -> bool) {
        let due = self.0.iter_mut().filter(|(_, introduction)| introduction.due <= now);
        for (key, introduction) in due {
            if !send(*key) {
                return;
            }
            introduction.due = now + introduction.pause;
            introduction.pause = (2 * introduction.pause).min(MAX_PAUSE);
        }
    }
}
