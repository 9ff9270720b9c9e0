//! The window probe: how many credits all senders together may have beyond one window. A long path holds more messages
//! than a window. A receiver cannot see how long its senders' paths are, but it sees what more credit brings. While
//! nothing queues, throughput grows in proportion to the credit. Once the receiver's link is the limit, more credit
//! only lengthens the queue in front of it.
//!
//! So the receiver tries. It grants a quarter more, and keeps it if throughput grew by at least half of that. It grants
//! a fifth less, and keeps that if throughput hardly fell. After a trial that did not pay, it waits longer before the
//! next one. The total never falls below one window: making it smaller is the task of [`Share`](crate::share::Share).
//! It never exceeds a window for each sender.

use crate::time::Time;

/// The state of the search. The module's page explains it.
#[derive(Debug, Default)]
pub(crate) struct Climb {
    /// When this round began.
    since: Time,
    /// The current total was in force during all of the last round.
    settled: bool,
    /// The total before this trial, and its throughput in messages a second.
    before: Option<(u16, u64)>,
    /// The next trial lowers the total.
    down: bool,
    /// Rounds until the next trial, and how many rounds the last wait took.
    rounds: u16,
    pause: u16,
}

/// The longest wait for the next trial, in rounds.
const LONGEST: u16 = 64;

/// The most credits of all senders together.
const MOST: u32 = 16 << 10;

/// What one round showed.
pub(crate) struct Round {
    pub(crate) messages: u32,
    pub(crate) senders: u16,
    /// Few of the messages were lost.
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
        // A smaller step would change nothing for each sender, and the number of senders is an estimate.
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

    /// The trial did not pay, or is at its limit: the next one goes the other way.
    fn turn_back(&mut self, total: u16) -> u16 {
        self.pause = (2 * self.pause).clamp(1, LONGEST);
        (self.down, self.rounds, self.settled) = (!self.down, self.pause, false);
        total
    }
}

/// Whether to keep the new total.
fn pays((old, old_rate): (u16, u64), (new, rate): (u16, u64)) -> bool {
    if new > old {
        // At least half of the growth in proportion.
        rate * 2 * u64::from(old) >= old_rate * (u64::from(old) + u64::from(new))
    } else {
        rate * 20 >= old_rate * 19
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that holds `capacity` messages and carries at most `rate` a second. Returns the total of each round.
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
