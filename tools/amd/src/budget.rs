//! What each user may do in a time: attach, and have lines in the log. One that does more waits, or is counted and left out of the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often a user may attach at once.
pub const MAX_ATTACHES: u32 = 1024;

/// How often in a second after that.
pub const ATTACHES_A_SECOND: u32 = 50;

/// The lines of the log about a user at once.
pub const MAX_LINES: u32 = 512;

/// In a second after that.
pub const LINES_A_SECOND: u32 = 4;

/// The frames for all nodes of a port at once. An honest node sends a few when it begins, and then one in seconds.
pub const MAX_BROADCASTS: u32 = 256;

/// In a second after that.
pub const BROADCASTS_A_SECOND: u32 = 100;

/// Users beyond it are looked through for those that have done nothing for long.
const MANY_USERS: usize = 256;

/// A leaky bucket: when it is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(Instant);

impl Bucket {
    pub(crate) fn new(now: Instant) -> Bucket {
        Bucket(now)
    }

    /// Whether there was room: `most` at once, and `a_second` in a second after that.
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

/// The budgets of all users, by number.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    users: HashMap<u32, Budget>,
    /// Whether lines were left out that the log does not know of yet.
    owes: bool,
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

    /// Whether the log takes another line about this user.
    pub(crate) fn has_line(&mut self, uid: u32, now: Instant) -> bool {
        let budget = self.of(uid, now);
        let has_room = budget.lines.take(MAX_LINES, LINES_A_SECOND, now);
        if !has_room {
            budget.left_out += 1;
            self.owes = true;
        }
        has_room
    }

    /// Each user whose lines were left out, with the number of these lines. A user is returned when the limit admits the user's next line.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<(u32, u64)> {
        if !std::mem::take(&mut self.owes) {
            return vec![];
        }
        let mut all = vec![];
        for (uid, budget) in self.users.iter_mut().filter(|(_, budget)| budget.left_out > 0) {
            if budget.lines.take(MAX_LINES, LINES_A_SECOND, now) {
                all.push((*uid, std::mem::take(&mut budget.left_out)));
            } else {
                self.owes = true;
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
        // It does not save more than it may do at once.
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
