//! The window probe: how many credits all senders together may have beyond one window. A long path holds more messages
//! than a window. A receiver cannot see how long its senders' paths are, but it can measure the effect of more credit.
//! While nothing queues, throughput grows in proportion to the credit. Once the receiver's link is the bottleneck, more
//! credit only lengthens the queue in front of it.
//!
//! So the receiver makes trials. It grants a quarter more, and keeps it if throughput grew by at least an eighth. It grants
//! a fifth less, and keeps that if throughput hardly fell. After a trial that did not pay, it waits longer before the
//! next one. The total never falls below one window: making it smaller is the task of [`FairShare`](crate::fair_share::FairShare).
//! It never exceeds a window for each sender.

use crate::time::Time;

/// The state of the search. The module's page explains it.
#[derive(Debug, Default)]
pub(crate) struct WindowProbe {
    since: Time,
    /// The current total was valid during all of the last round.
    is_steady: bool,
    /// The total before this trial, and its throughput in messages a second.
    previous: Option<(u16, u64)>,
    /// The next trial lowers the total.
    is_lowering: bool,
    /// Rounds until the next trial, and the length of the last pause between trials.
    rounds_left: u16,
    last_pause: u16,
}

/// The longest wait for the next trial, in rounds.
const MAX_PAUSE_ROUNDS: u16 = 64;

/// The most credits of all senders together.
const MAX_TOTAL_CREDITS: u32 = 16 << 10;

pub(crate) struct Round {
    pub(crate) messages: u32,
    pub(crate) senders: u16,
    /// Few of the messages were lost.
    pub(crate) has_little_loss: bool,
}

impl WindowProbe {
    /// The total for the next round. `total` is at least `window`.
    pub(crate) fn next_total(&mut self, now: Time, round: &Round, total: u16, window: u16) -> u16 {
        let elapsed = now.since(self.since).max(1);
        self.since = now;
        let max_total = (u32::from(window) * u32::from(round.senders.max(1))).min(MAX_TOTAL_CREDITS) as u16;
        if round.senders < 2 || !round.has_little_loss || total > max_total {
            *self = WindowProbe { since: now, ..WindowProbe::default() };
            return total.min(max_total);
        }
        if !self.is_steady {
            self.is_steady = true;
            return total;
        }
        let rate = u64::from(round.messages) * 1_000_000_000 / elapsed;
        if let Some((old, old_rate)) = self.previous.take()
            && !pays((old, old_rate), (total, rate))
        {
            return self.end_trial(old);
        }
        if self.rounds_left > 0 {
            self.rounds_left -= 1;
            return total;
        }
        self.start_trial(total, rate, round.senders, (window, max_total))
    }

    fn start_trial(&mut self, total: u16, rate: u64, senders: u16, (least, most): (u16, u16)) -> u16 {
        // A smaller step would change nothing for each sender, and the number of senders is an estimate.
        let least_step = senders.saturating_add(senders / 4);
        let next = if self.is_lowering {
            total.saturating_sub((total / 5).max(least_step))
        } else {
            total.saturating_add((total / 4).max(least_step))
        };
        let next = next.clamp(least, most);
        if next == total {
            return self.end_trial(total);
        }
        (self.previous, self.is_steady) = (Some((total, rate)), false);
        next
    }

    /// The trial did not pay, or is at its limit: the next one goes the other way.
    fn end_trial(&mut self, total: u16) -> u16 {
        self.last_pause = (2 * self.last_pause).clamp(1, MAX_PAUSE_ROUNDS);
        (self.is_lowering, self.rounds_left, self.is_steady) = (!self.is_lowering, self.last_pause, false);
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
    fn totals_of(capacity: u64, rate: u64, senders: u16, rounds: usize) -> Vec<u16> {
        let (mut probe, mut total, mut now) = (WindowProbe::default(), 128, Time(1));
        let mut totals = vec![];
        for _ in 0..rounds {
            let messages = 2 * u32::from(total);
            let comes = (rate * u64::from(total) / capacity).min(rate);
            now = now.later(u64::from(messages) * 1_000_000_000 / comes);
            total = probe.next_total(now, &Round { messages, senders, has_little_loss: true }, total, 128);
            totals.push(total);
        }
        totals
    }

    #[test]
    fn a_long_path_is_filled_and_not_much_more() {
        let totals = totals_of(1000, 800_000, 64, 400);
        let last = &totals[50..];
        let (least, most) = (last.iter().min().unwrap(), last.iter().max().unwrap());
        assert!(*least > 700 && *most < 1700, "{least} to {most}");
    }

    #[test]
    fn a_short_path_needs_no_more_than_the_window() {
        let totals = totals_of(20, 800_000, 64, 4000);
        assert!(totals.iter().filter(|&&total| total > 128).count() < 200);
    }

    #[test]
    fn each_sender_has_at_most_a_window() {
        assert_eq!(totals_of(100_000, 800_000, 3, 100).iter().max(), Some(&(3 * 128)));
        assert_eq!(totals_of(100_000, 800_000, 1, 100).iter().max(), Some(&128));
    }

    #[test]
    fn loss_or_a_single_sender_ends_the_probe() {
        let (mut probe, round) = (WindowProbe::default(), Round { messages: 256, senders: 8, has_little_loss: false });
        assert_eq!(probe.next_total(Time(1), &round, 500, 128), 500, "the loss is taken off elsewhere");
        let alone = Round { senders: 1, has_little_loss: true, ..round };
        assert_eq!(probe.next_total(Time(2), &alone, 500, 128), 128);
    }
}
