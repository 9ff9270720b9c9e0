//! Gives numbers, and the credits that bound them.
//!
//! A credit stands for room for one message at every member. A sender needs one for each message. A credit is in one of three
//! places, and their sum is the group's capacity:
//!
//! ```text
//!   pool ──granted with a number──▶ a sender's ──a message is stamped──▶ in flight ──every member has handled it──▶ pool
//! ```

use std::collections::VecDeque;

use crate::mutants::{self, Mutant};
use crate::view::{Epoch, Number};

/// How many numbers of a sender are remembered, for messages that come again.
const REMEMBERED: usize = 128;

/// Gives the numbers of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct Sequencer {
    pub(crate) epoch: Epoch,
    next: Number,
    recycled: Number,
    capacity: u64,
    pool: u64,
    senders: Vec<Sender>,
}

#[derive(Clone, Debug, Default)]
struct Sender {
    next_seq: u32,
    limit: u32,
    /// The numbers of its last messages.
    numbers: VecDeque<Number>,
}

/// A message's place in the order, and its sender's credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) number: Number,
    pub(crate) limit: u32,
}

/// Why a message gets no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No such slot.
    Sender,
    /// An earlier message of the sender has none yet.
    Gap,
    /// The sender has used its credit.
    Credit,
    /// The message was stamped so long ago that its number is forgotten.
    Forgotten,
    /// The sequencer has no lease.
    Lease,
}

impl Sequencer {
    /// Begin an epoch at a number. Messages before it that are not recycled use credits.
    pub(crate) fn new(epoch: Epoch, next: Number, recycled: Number, senders: usize, capacity: usize) -> Sequencer {
        let recycled = recycled.clamp(next.saturating_sub(capacity as u64), next);
        let pool = capacity as u64 - (next - recycled);
        let senders = vec![Sender::default(); senders];
        let mut sequencer = Sequencer { epoch, next, recycled, capacity: capacity as u64, pool, senders };
        (0..sequencer.senders.len()).for_each(|slot| sequencer.grant(slot));
        sequencer
    }

    pub(crate) fn next(&self) -> Number {
        self.next
    }

    pub(crate) fn recycled(&self) -> Number {
        self.recycled
    }

    /// No sender can get a credit before messages in flight are handled.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.pool == 0 && self.senders.iter().any(|sender| sender.next_seq == sender.limit)
    }

    /// A sender's numbers end soon. The next epoch begins with 0 again.
    pub(crate) fn is_worn(&self) -> bool {
        self.senders.iter().any(|sender| sender.next_seq >= 3 << 30)
    }

    /// A sender's limit.
    pub(crate) fn limit(&self, slot: usize) -> u32 {
        self.senders[slot].limit
    }

    /// Each sender's limit.
    pub(crate) fn limits(&self) -> Vec<u32> {
        self.senders.iter().map(|sender| sender.limit).collect()
    }

    /// The number of a message: the next, or the one that it had before.
    pub(crate) fn stamp(&mut self, slot: usize, seq: u32) -> Result<Stamp, Refusal> {
        let sender = self.senders.get_mut(slot).ok_or(Refusal::Sender)?;
        if seq < sender.next_seq {
            let back = (sender.next_seq - seq) as usize;
            let index = sender.numbers.len().checked_sub(back).ok_or(Refusal::Forgotten)?;
            return Ok(Stamp { number: sender.numbers[index], limit: sender.limit });
        }
        if seq > sender.next_seq {
            return Err(Refusal::Gap);
        }
        if seq == sender.limit {
            return Err(Refusal::Credit);
        }
        let number = self.next;
        self.next += 1;
        sender.next_seq += 1;
        if sender.numbers.len() == REMEMBERED {
            sender.numbers.pop_front();
        }
        sender.numbers.push_back(number);
        self.grant(slot);
        Ok(Stamp { number, limit: self.limit(slot) })
    }

    /// All before this number are handled everywhere: their credits are free. A sender without credit gets some.
    pub(crate) fn recycle(&mut self, to: Number) {
        let to = to.min(self.next);
        let twice = if mutants::is_active(Mutant::CreditTwice) { 2 } else { 1 };
        self.pool += to.saturating_sub(self.recycled) * twice;
        self.recycled = self.recycled.max(to);
        (0..self.senders.len()).for_each(|slot| self.grant(slot));
    }

    /// Fill a sender's credit up to its share, if less than half of it is left.
    fn grant(&mut self, slot: usize) {
        let share = (self.capacity / (2 * self.senders.len() as u64)).clamp(1, REMEMBERED as u64);
        if mutants::is_active(Mutant::Starved) && self.epoch > Epoch(3) && slot + 1 == self.senders.len() {
            return;
        }
        let sender = &mut self.senders[slot];
        let left = u64::from(sender.limit - sender.next_seq);
        if left * 2 < share {
            let granted = (share - left).min(self.pool);
            self.pool -= granted;
            sender.limit += granted as u32;
        }
    }

    /// Whether the credits add up to the group's capacity.
    pub(crate) fn is_whole(&self) -> bool {
        let with_senders: u64 = self.senders.iter().map(|sender| u64::from(sender.limit - sender.next_seq)).sum();
        self.pool + with_senders + (self.next - self.recycled) == self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(stamp: Result<Stamp, Refusal>) -> Number {
        stamp.expect("a number").number
    }

    #[test]
    fn a_message_that_comes_again_keeps_its_number() {
        let mut sequencer = Sequencer::new(Epoch(1), 50, 50, 2, 64);
        assert_eq!((number(sequencer.stamp(0, 0)), number(sequencer.stamp(1, 0))), (50, 51));
        assert_eq!((number(sequencer.stamp(0, 0)), number(sequencer.stamp(0, 1))), (50, 52));
        assert_eq!(sequencer.stamp(0, 3), Err(Refusal::Gap));
        assert_eq!(sequencer.stamp(2, 0), Err(Refusal::Sender));
        assert!(sequencer.is_whole() && sequencer.next() == 53);
    }

    #[test]
    fn a_sender_without_credit_waits_until_messages_are_handled() {
        let mut sequencer = Sequencer::new(Epoch(1), 0, 0, 2, 8);
        let stamped = (0..).find(|seq| sequencer.stamp(0, *seq).is_err()).expect("an end");
        assert_eq!(stamped, 6, "two are the other sender's");
        assert_eq!(sequencer.stamp(0, 6), Err(Refusal::Credit));
        assert!(sequencer.is_exhausted() && sequencer.is_whole());
        sequencer.recycle(1);
        assert!(sequencer.stamp(0, 6).is_ok() && sequencer.stamp(1, 0).is_ok() && sequencer.is_whole());
        sequencer.recycle(100);
        assert!(sequencer.is_whole() && sequencer.recycled() == sequencer.next());
    }

    #[test]
    fn credits_are_whole_when_an_epoch_begins_with_messages_in_flight() {
        assert!(Sequencer::new(Epoch(2), 30, 25, 4, 8).is_whole());
        let full = Sequencer::new(Epoch(2), 30, 3, 4, 8);
        assert!(full.is_whole() && full.is_exhausted() && full.recycled() == 22);
    }

    #[test]
    fn a_number_is_forgotten_after_many_others() {
        let mut sequencer = Sequencer::new(Epoch(1), 0, 0, 1, 1000);
        for seq in 0..200 {
            assert_eq!(number(sequencer.stamp(0, seq)), u64::from(seq));
        }
        assert_eq!(sequencer.stamp(0, 71), Err(Refusal::Forgotten));
        assert_eq!(number(sequencer.stamp(0, 72)), 72);
    }
}
