//! The fair share: how many credits each sender of a class may have while several send. A window is what one sender
//! needs to keep the path busy, and many senders together need no more. Messages beyond that wait in front of the
//! receiver's link, in a switch's buffers, and are lost when these are full.
//!
//! ```text
//!   window ────────────▶ total ──────────────▶ each = total ÷ senders
//!              less when frames are lost,      (a sender with more gives credit back as it is used,
//!              more when that pays             one with less gets two for one)
//! ```
//!
//! **Senders** are counted by what they send, in *rounds* of two windows of messages, because the messages of one
//! sender come together, as many as it has credits. With few active senders left of many, a round ends after eight
//! shares of one sender. Senders of `u` messages each count as (Σu)² ÷ Σu²: their number when all send alike, and about
//! one when a single one sends much and the others little. A sender that sends nothing does not count, except for a
//! while after it connected.
//!
//! **Loss** seen here (gaps that later messages overtook, requests without room) lowers the total by half of its part,
//! as DCTCP does with marks (Alizadeh et al., 2010). One lost frame in a hundred on a bad cable changes little. A
//! switch that drops a third stops doing so after a few rounds. The total grows again by one a round, or, with many
//! senders, by one in several rounds: a step of the total is a step of all senders, and overflows must be rare.
//!
//! **More than a window** is for longer paths: see the [window probe](crate::climb).

use core::time::Duration;

use crate::climb::{Climb, Round};
use crate::time::Time;

/// The fair share of one class.
#[derive(Debug)]
pub(crate) struct Share {
    /// The most that one sender may have.
    window: u16,
    /// The most that all may have together. More than a window if that pays.
    total: u16,
    /// The most that each may have.
    each: u16,
    /// Senders in the last round.
    senders: u16,
    /// New senders that have not sent anything.
    expected: u16,
    /// How long they count.
    expected_until: Time,
    round: u16,
    /// Rounds since the total last grew.
    rounds: u16,
    /// The most messages of one sender that count in this round. A sender above its share first sends all it has at
    /// once, which is an exception.
    most: u16,
    /// Messages in this round.
    messages: u32,
    /// Σu and Σu².
    counted: u64,
    squares: u64,
    lost: u32,
    /// The search for a total beyond one window.
    climb: Climb,
}

/// How much one sender sent in this round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    round: u16,
    messages: u16,
}

/// The total never falls below this because of loss: it keeps a short path busy.
const LEAST_TOTAL: u16 = 16;

/// How long a new sender counts that sends nothing: a few time-outs, in case its messages are lost.
const WHILE: Duration = Duration::from_millis(10);

/// A round ends once a sender has used its share this many times: no other sender is active.
const LOOPS: u16 = 8;

/// Up to one lost message in this many says nothing about the window.
const FEW: u64 = 50;

/// The total grows by one at least every so many rounds.
const SLOWEST: u16 = 64;

impl Share {
    pub(crate) fn new(window: u16) -> Self {
        Share {
            window,
            total: window,
            each: window,
            senders: 0,
            expected: 0,
            expected_until: Time(0),
            round: 1,
            rounds: 0,
            most: 2 * window,
            messages: 0,
            counted: 0,
            squares: 0,
            lost: 0,
            climb: Climb::default(),
        }
    }

    /// The credits that each sender may have now.
    #[inline]
    pub(crate) fn each(&self) -> u16 {
        self.each
    }

    /// The same, without the new senders.
    pub(crate) fn each_of_present(&self) -> u16 {
        (self.total / self.senders.max(1)).clamp(1, self.window)
    }

    /// A new sender connected. It counts for a while, until it has sent something: the others may have left it no room
    /// to.
    pub(crate) fn expect(&mut self, now: Time) {
        self.expected = self.expected.saturating_add(1);
        self.expected_until = now + WHILE;
        self.share_out(1, self.senders as u64);
    }

    /// Count messages of one sender, and lost messages of any sender.
    pub(crate) fn note(&mut self, now: Time, sender: &mut Use, messages: u16, lost: u32) {
        if self.expected > 0 && now >= self.expected_until {
            self.expected = 0;
            self.share_out(1, self.senders as u64);
        }
        if sender.round != self.round {
            self.expected = self.expected.saturating_sub((sender.round == 0) as u16);
            *sender = Use { round: self.round, messages: 0 };
        }
        let before = sender.messages.min(self.most) as u64;
        sender.messages = sender.messages.saturating_add(messages);
        let after = sender.messages.min(self.most) as u64;
        self.squares += after.pow(2) - before.pow(2);
        self.counted += after - before;
        self.messages += messages as u32;
        self.lost += lost;
        let most = 2 * self.total.max(self.window) as u32;
        if self.messages >= most || sender.messages >= LOOPS.saturating_mul(self.each) {
            self.next_round(now);
        }
    }

    /// The messages that counted as lost only came late.
    pub(crate) fn undo(&mut self) {
        self.lost = 0;
        self.total = self.total.max(self.window);
    }

    fn next_round(&mut self, now: Time) {
        let (counted, squares) = (self.counted.pow(2).max(1), self.squares.max(1));
        self.senders = ((counted + squares / 2) / squares) as u16;
        self.adapt(now);
        self.share_out(squares, counted);
        self.round = self.round.wrapping_add(1).max(1);
        self.most = 2 * self.each;
        (self.messages, self.counted, self.squares, self.lost) = (0, 0, 0, 0);
    }

    /// Divide the total by `counted / squares` senders and the new ones.
    fn share_out(&mut self, squares: u64, counted: u64) {
        let senders = (counted + self.expected as u64 * squares).max(squares);
        self.each = (self.total as u64 * squares / senders).clamp(1, self.window as u64) as u16;
    }

    fn adapt(&mut self, now: Time) {
        let lost = self.lost.min(self.messages) as u64;
        let less = self.total as u64 * lost / (2 * self.messages.max(1) as u64);
        self.rounds = self.rounds.saturating_add(1);
        let more = (self.total < self.window && self.rounds >= self.senders.min(SLOWEST)) as u16;
        if more > 0 {
            self.rounds = 0;
        }
        self.total = (self.total + more - less as u16).max(LEAST_TOTAL.min(self.window));
        if self.total >= self.window {
            let clean = lost * FEW < self.messages as u64;
            let round = Round { messages: self.messages, senders: self.senders, clean };
            self.total = self.climb.next(now, &round, self.total, self.window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1);

    /// Rounds in which the senders send `each` messages in turn, one a microsecond. Returns the smallest share in the
    /// second half, since the window probe raises it at times.
    fn send(share: &mut Share, senders: &mut [Use], each: &[u16], rounds: usize) -> u16 {
        let (mut now, mut least) = (Time(1), u16::MAX);
        for round in 0..rounds {
            for (sender, &messages) in senders.iter_mut().zip(each) {
                now = now.later(u64::from(messages) * 1000);
                share.note(now, sender, messages, 0);
            }
            least = if round < rounds / 2 { u16::MAX } else { least.min(share.each()) };
        }
        least
    }

    #[test]
    fn one_alone_has_the_window() {
        let mut share = Share::new(128);
        send(&mut share, &mut [Use::default()], &[7], 1000);
        assert_eq!(share.each(), 128);
    }

    /// Rounds are counted only while the total is below the window.
    #[test]
    fn one_alone_may_send_for_ever() {
        let (mut share, mut sender) = (Share::new(1), Use::default());
        (0..100_000).for_each(|_| share.note(NOW, &mut sender, 8, 0));
        assert_eq!(share.each(), 1);
    }

    #[test]
    fn many_have_their_part_and_those_who_stay_get_what_others_leave() {
        let mut share = Share::new(128);
        let mut senders = [Use::default(); 64];
        assert_eq!(send(&mut share, &mut senders, &[1; 64], 100), 2);
        assert_eq!(send(&mut share, &mut senders[..32], &[2; 32], 16), 4, "after two windows of messages");
        send(&mut share, &mut senders[..1], &[4], 128);
        assert_eq!(share.each(), 128);
    }

    #[test]
    fn who_says_little_counts_little() {
        let mut share = Share::new(128);
        let mut senders = [Use::default(); 9];
        send(&mut share, &mut senders, &[60, 1, 1, 1, 1, 1, 1, 1, 1], 50);
        assert!(share.each() > 90, "{}", share.each());
    }

    #[test]
    fn who_is_new_has_a_share_for_a_while() {
        let mut share = Share::new(128);
        let mut first = Use::default();
        share.expect(NOW);
        assert_eq!(share.each(), 128, "there is no other sender");
        share.note(NOW, &mut first, 256, 0);
        share.expect(NOW);
        share.note(NOW, &mut first, 256, 0);
        assert_eq!(share.each(), 64);
        share.note(NOW + WHILE, &mut first, 1, 0);
        assert_eq!(share.each(), 128, "it does not send");
        (0..7).for_each(|_| share.expect(NOW));
        share.note(NOW, &mut Use::default(), 1, 0);
        assert_eq!(share.expected, 6, "one has sent something");
    }

    #[test]
    fn very_many_have_one_each() {
        let mut share = Share::new(128);
        assert_eq!(send(&mut share, &mut [Use::default(); 2000], &[1; 2000], 20), 1);
    }

    #[test]
    fn little_loss_changes_little_and_much_loss_much() {
        let total = |lost_in: u32| {
            let (mut share, mut sender) = (Share::new(128), Use::default());
            for n in 0..100_000 {
                share.note(NOW, &mut sender, 1, (n % lost_in == 0) as u32);
            }
            share.total
        };
        assert!(total(100) > 100, "{}", total(100));
        assert!(total(3) < 32, "{}", total(3));
    }

    #[test]
    fn what_loss_took_comes_back() {
        let (mut share, mut sender) = (Share::new(128), Use::default());
        (0..10_000).for_each(|_| share.note(NOW, &mut sender, 1, 1));
        assert_eq!(share.total, LEAST_TOTAL);
        (0..40_000).for_each(|_| share.note(NOW, &mut sender, 1, 0));
        assert_eq!(share.total, 128);
    }
}
