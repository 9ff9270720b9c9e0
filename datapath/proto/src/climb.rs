//! What all senders may have together beyond a window: a long way holds more.
//! A receiver does not see how long the ways of its senders are, but it sees
//! what more credit brings. While nothing queues, so many credits more bring so
//! many messages more in the same time; where the receiver's link is the limit,
//! they bring none, and only wait in front of it.
//!
//! So it tries: a quarter more, and keeps it where half of that much came in
//! addition; a fifth less, and keeps that where next to nothing was missed. What
//! did not pay is not tried again soon. It never gets below the window, which
//! is [`Share`](crate::share::Share)'s to make smaller, and never above a window each.

use crate::time::Time;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Climb {
    /// When the present round began.
    since: Time,
    /// The present total was in force in all of the last round.
    settled: bool,
    /// The total before the present trial, and the messages a second that it brought.
    before: Option<(u16, u64)>,
    /// The next trial is one with less.
    down: bool,
    /// Rounds until it, and how many those were the last time.
    rounds: u16,
    pause: u16,
}

/// A trial comes at least every so many rounds.
const LONGEST: u16 = 64;

/// More than so many credits together are never lent.
const MOST: u32 = 16 << 10;

/// What a round brought.
pub(crate) struct Round {
    pub(crate) messages: u32,
    pub(crate) senders: u16,
    /// Few of them were lost.
    pub(crate) clean: bool,
}

impl Climb {
    /// The total for the next round. `total` is at least `window`.
    pub(crate) fn next(&mut self, now: Time, round: &Round, total: u16, window: u16) -> u16 {
        let elapsed = now.since(self.since).max(1);
        self.since = now;
        let most = (u32::from(window) * u32::from(round.senders.max(1))).min(MOST) as u16;
        if round.senders < 2 || !round.clean || total > most {
            *self = Climb { since: now, ..Climb::default() };
            return total.min(most);
        }
        if !self.settled {
            self.settled = true;
            return total;
        }
        let rate = u64::from(round.messages) * 1_000_000_000 / elapsed;
        if let Some((old, old_rate)) = self.before.take()
            && !pays((old, old_rate), (total, rate))
        {
            return self.turn_back(old);
        }
        if self.rounds > 0 {
            self.rounds -= 1;
            return total;
        }
        self.step(total, rate, round.senders, (window, most))
    }

    fn step(&mut self, total: u16, rate: u64, senders: u16, (least, most): (u16, u16)) -> u16 {
        // Less than one more for each would change nothing, and senders are not counted that exactly.
        let least_step = senders.saturating_add(senders / 4);
        let next = if self.down {
            total.saturating_sub((total / 5).max(least_step))
        } else {
            total.saturating_add((total / 4).max(least_step))
        };
        let next = next.clamp(least, most);
        if next == total {
            return self.turn_back(total);
        }
        (self.before, self.settled) = (Some((total, rate)), false);
        next
    }

    /// It did not pay, or cannot go on: the next trial is the other way.
    fn turn_back(&mut self, total: u16) -> u16 {
        self.pause = (2 * self.pause).clamp(1, LONGEST);
        (self.down, self.rounds, self.settled) = (!self.down, self.pause, false);
        total
    }
}

/// Whether the trial should be kept.
fn pays((old, old_rate): (u16, u64), (new, rate): (u16, u64)) -> bool {
    if new > old {
        // Half of what there would be in proportion.
        rate * 2 * u64::from(old) >= old_rate * (u64::from(old) + u64::from(new))
    } else {
        rate * 20 >= old_rate * 19
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way that holds `way` messages, of which so many a second come through at most: rounds of so
    /// many senders; returns the totals.
    fn climb(way: u64, rate: u64, senders: u16, rounds: usize) -> Vec<u16> {
        let (mut climb, mut total, mut now) = (Climb::default(), 128, Time(1));
        let mut totals = vec![];
        for _ in 0..rounds {
            let messages = 2 * u32::from(total);
            let comes = (rate * u64::from(total) / way).min(rate);
            now = now.later(u64::from(messages) * 1_000_000_000 / comes);
            total = climb.next(now, &Round { messages, senders, clean: true }, total, 128);
            totals.push(total);
        }
        totals
    }

    #[test]
    fn a_long_way_is_filled_and_not_much_more() {
        let totals = climb(1000, 800_000, 64, 400);
        let last = &totals[50..];
        let (least, most) = (last.iter().min().unwrap(), last.iter().max().unwrap());
        assert!(*least > 700 && *most < 1700, "{least} to {most}");
    }

    #[test]
    fn a_short_way_needs_no_more_than_the_window() {
        let totals = climb(20, 800_000, 64, 4000);
        assert!(totals.iter().filter(|&&total| total > 128).count() < 200);
    }

    #[test]
    fn each_has_a_window_at_most() {
        assert_eq!(climb(100_000, 800_000, 3, 100).iter().max(), Some(&(3 * 128)));
        assert_eq!(climb(100_000, 800_000, 1, 100).iter().max(), Some(&128));
    }

    #[test]
    fn what_gets_lost_or_goes_away_ends_it() {
        let (mut climb, round) = (Climb::default(), Round { messages: 256, senders: 8, clean: false });
        assert_eq!(climb.next(Time(1), &round, 500, 128), 500, "the loss is taken off elsewhere");
        let alone = Round { senders: 1, clean: true, ..round };
        assert_eq!(climb.next(Time(2), &alone, 500, 128), 128);
    }
}
