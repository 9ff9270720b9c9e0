//! Limits on questions to all nodes. Set-ups ask all nodes for a peer that is unknown or does not answer. Over UDP such a question is one
//! frame to each node, and each node answers. So N set-ups of each of N nodes must not ask N times.

use core::time::Duration;

use crate::time::Time;

/// The first pause between two questions to all. It doubles as long as set-ups search.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// The longest pause with few peers, that for each peer, and the longest of all.
const FEW_PEERS_PAUSE: Duration = Duration::from_millis(64);
const PAUSE_PER_PEER: Duration = Duration::from_millis(8);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// How long the node at an address that was just added has time to answer before all are asked.
const ADDED_PAUSE: Duration = Duration::from_millis(60);

/// When all nodes may be asked again.
#[derive(Debug)]
pub(crate) struct Search {
    /// When all were asked last.
    asked: Time,
    next: Time,
    pause: Duration,
    /// When a set-up last wanted to ask.
    wanted: Time,
}

impl Default for Search {
    fn default() -> Search {
        Search { asked: Time(0), next: Time(0), pause: FIRST_PAUSE, wanted: Time(0) }
    }
}

impl Search {
    /// Whether all nodes may be asked now. If so, it starts the pause.
    pub(crate) fn try_take(&mut self, now: Time, peers: usize) -> bool {
        let longest = (PAUSE_PER_PEER * peers as u32).clamp(FEW_PEERS_PAUSE, MAX_PAUSE);
        // All searches have ended meanwhile, or the only one is slower than this.
        if now - self.wanted > longest {
            self.pause = FIRST_PAUSE;
        }
        self.wanted = now;
        let is_time = now >= self.next;
        if is_time {
            (self.asked, self.next) = (now, now + self.pause);
            self.pause = (2 * self.pause).min(longest);
        }
        is_time
    }

    /// Whether all nodes were last asked so long ago that a known peer may have moved since.
    pub(crate) fn is_old(&self, now: Time, peers: usize) -> bool {
        now - self.asked >= (4 * PAUSE_PER_PEER * peers as u32).min(4 * MAX_PAUSE)
    }

    /// A node may be at an address that was just added, and is asked by itself. While more and more addresses are added, all are
    /// asked nevertheless, in the end.
    pub(crate) fn on_address_added(&mut self, now: Time) {
        let wait = (now + ADDED_PAUSE).min((self.asked + MAX_PAUSE).max(now));
        self.next = self.next.max(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(1) + Duration::from_millis(ms)
    }

    /// The questions to all in the first seconds, if set-ups want one each millisecond.
    fn asked(peers: usize, until: u64) -> usize {
        let mut search = Search::default();
        (0..until).filter(|ms| search.try_take(at(*ms), peers)).count()
    }

    #[test]
    fn many_searches_ask_as_often_as_one_and_among_many_peers_more_seldom() {
        assert_eq!([1, 8, 64, 10_000].map(|peers| asked(peers, 4000)), [66, 66, 14, 11]);
    }

    #[test]
    fn after_a_rest_the_first_questions_are_soon_repeated() {
        let mut search = Search::default();
        (0..4000).for_each(|ms| _ = search.try_take(at(ms), 8));
        let again: Vec<u64> = (5000..5064).filter(|ms| search.try_take(at(*ms), 8)).collect();
        assert_eq!(again, [5000, 5004, 5012, 5028, 5060]);
    }

    #[test]
    fn all_are_asked_although_addresses_are_added() {
        let mut search = Search::default();
        let mut ask = |ms: u64| {
            search.on_address_added(at(ms));
            search.try_take(at(ms), 1)
        };
        let asked = (0..3100).filter(|ms| ask(*ms)).count();
        assert_eq!(asked, 3);
    }
}
