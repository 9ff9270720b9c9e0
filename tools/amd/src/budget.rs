//! Rate limits for each user: how often its programs may attach, and how many log lines may be about it. A program above the limit waits
//! to attach; a line above the limit is counted and not logged.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How many times a user may attach in one burst.
pub const MAX_ATTACHES: u32 = 1024;

/// How many times a second a user may attach after the burst.
pub const ATTACHES_A_SECOND: u32 = 50;

/// How many log lines may be about one user in one burst.
pub const MAX_LINES: u32 = 512;

/// How many log lines a second may be about one user after the burst.
pub const LINES_A_SECOND: u32 = 4;

/// How many broadcast frames a port may send in one burst. A correct node sends a few when it starts, and then one every few seconds.
pub const MAX_BROADCASTS: u32 = 256;

/// How many broadcast frames a second a port may send after the burst.
pub const BROADCASTS_A_SECOND: u32 = 100;

/// When the table has more users than this, users whose budgets are full again are removed from it.
const MANY_USERS: usize = 256;

/// A leaky bucket, stored as the time at which it is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(Instant);

impl Bucket {
    pub(crate) fn new(now: Instant) -> Bucket {
        Bucket(now)
    }

    /// Use the bucket once. Returns whether it had room: `most` uses in one burst, then `a_second` uses a second.
    pub(crate) fn take(&mut self, most: u32, a_second: u32, now: Instant) -> bool {
        let interval = Duration::from_secs(1) / a_second;
        let empty = self.0.max(now) + interval;
        let has_room = empty - now <= interval * most;
        if has_room {
            self.0 = empty;
        }
        has_room
    }
}

#[derive(Debug)]
struct Budget {
    attaches: Bucket,
    lines: Bucket,
    left_out: u64,
}

impl Budget {
    fn is_unused(&self, now: Instant) -> bool {
        self.left_out == 0 && self.attaches.0 <= now && self.lines.0 <= now
    }
}

/// The budgets of all users, by user id.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    users: HashMap<u32, Budget>,
    /// Whether lines were left out and their number is not logged yet.
    has_unlogged: bool,
}

impl Budgets {
    fn of(&mut self, uid: u32, now: Instant) -> &mut Budget {
        if self.users.len() >= MANY_USERS && !self.users.contains_key(&uid) {
            self.users.retain(|_, budget| !budget.is_unused(now));
        }
        let empty = Bucket::new(now);
        self.users.entry(uid).or_insert(Budget { attaches: empty, lines: empty, left_out: 0 })
    }

    /// Whether a program of this user may attach now.
    pub(crate) fn may_attach(&mut self, uid: u32, now: Instant) -> bool {
        self.of(uid, now).attaches.take(MAX_ATTACHES, ATTACHES_A_SECOND, now)
    }

    /// Whether the user's budget allows another log line. A line that it does not allow is counted.
    pub(crate) fn has_line(&mut self, uid: u32, now: Instant) -> bool {
        let budget = self.of(uid, now);
        let has_room = budget.lines.take(MAX_LINES, LINES_A_SECOND, now);
        if !has_room {
            budget.left_out += 1;
            self.has_unlogged = true;
        }
        has_room
    }

    /// The users whose lines were left out, each with the number of these lines. A user is returned only when its budget allows a line again.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<(u32, u64)> {
        if !std::mem::take(&mut self.has_unlogged) {
            return vec![];
        }
        let mut all = vec![];
        for (uid, budget) in self.users.iter_mut().filter(|(_, budget)| budget.left_out > 0) {
            if budget.lines.take(MAX_LINES, LINES_A_SECOND, now) {
                all.push((*uid, std::mem::take(&mut budget.left_out)));
            } else {
                self.has_unlogged = true;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: u32 = 1;
    const BOB: u32 = 2;

    #[test]
    fn a_user_has_a_rate_and_others_have_their_own() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        let attaches = |budgets: &mut Budgets, at| (0..5000).filter(|_| budgets.may_attach(ALICE, at)).count() as u32;
        assert_eq!(attaches(&mut budgets, start), MAX_ATTACHES);
        assert!(budgets.may_attach(BOB, start));
        let late = start + Duration::from_secs(3);
        assert_eq!(attaches(&mut budgets, late), 3 * ATTACHES_A_SECOND);
        // A user that was idle for long has no more than one full burst.
        assert_eq!(attaches(&mut budgets, late + Duration::from_secs(1_000_000)), MAX_ATTACHES);
    }

    #[test]
    fn lines_that_are_left_out_are_counted_and_said_once() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        let lines = (0..MAX_LINES + 100).filter(|_| budgets.has_line(ALICE, start)).count() as u32;
        assert_eq!(lines, MAX_LINES);
        assert_eq!(budgets.left_out(start), [], "this would be a line, too");
        assert_eq!(budgets.left_out(start + Duration::from_secs(1)), [(ALICE, 100)]);
        assert_eq!(budgets.left_out(start + Duration::from_secs(2)), []);
    }

    #[test]
    fn users_that_do_nothing_are_forgotten() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        for user in 0..100_000 {
            budgets.may_attach(user, start + Duration::from_millis(user.into()));
        }
        assert!(budgets.users.len() <= MANY_USERS, "{}", budgets.users.len());
    }
}
