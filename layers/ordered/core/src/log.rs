//! The messages of a group by their numbers, kept until every member has them.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::view::{Epoch, MOST_NUMBER, MemberId, Number};

/// When a message is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// As soon as its place in the order is known and all before it are delivered.
    Agreed,
    /// When each majority of the view has a member that holds it.
    Safe,
}

/// What the sequencer gets of a message, and sends to all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    /// The message itself.
    Here(Bytes),
    /// Only its order: the message goes from its sender to all members, as [`Message::Data`](crate::Message::Data).
    Apart(Long),
}

impl Content {
    /// Whether a member can have sent it.
    pub(crate) fn is_possible(&self) -> bool {
        match self {
            Content::Here(_) => true,
            Content::Apart(long) => long.is_possible(),
        }
    }
}

/// Names the content of a long message, which travels apart from its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Long {
    /// The sender's id for it.
    pub id: u64,
    /// Its bytes.
    pub length: u64,
}

impl Long {
    /// Whether a node accepts a message of this length: a member waits for it, the longer the more.
    pub(crate) fn is_possible(&self) -> bool {
        self.length <= 1 << 30
    }
}

/// A message with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The epoch in which it was stamped.
    pub epoch: Epoch,
    /// Its place.
    pub number: Number,
    /// Its sender.
    pub sender: MemberId,
    /// Its sender's number for it, within the epoch.
    pub seq: u32,
    /// When it is delivered.
    pub level: Level,
    /// If it is a long one, the name of its content.
    pub long: Option<Long>,
    /// Its content. Empty while only the name is known.
    pub payload: Bytes,
}

impl Entry {
    /// Whether a group can have got as far.
    pub(crate) fn is_possible(&self) -> bool {
        self.epoch.is_possible() && self.number <= MOST_NUMBER && self.long.as_ref().is_none_or(Long::is_possible)
    }
}

/// The kept messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    first: Number,
    entries: VecDeque<Option<Rc<Entry>>>,
    /// Of all that are kept.
    bytes: usize,
    /// All before this one are here, or were.
    held: Number,
    /// The first one behind the gap that is here. A gap can be long, and is looked for after each message.
    behind: Option<Number>,
}

impl Log {
    /// A log that begins at a number.
    pub(crate) fn starting_at(first: Number) -> Log {
        Log { first, entries: VecDeque::new(), bytes: 0, held: first, behind: None }
    }

    /// The first number that is still kept.
    pub(crate) fn first(&self) -> Number {
        self.first
    }

    /// All before this number are here, or were.
    pub(crate) fn held(&self) -> Number {
        self.held
    }

    /// Beyond the last entry.
    pub(crate) fn end(&self) -> Number {
        self.first + self.entries.len() as u64
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Rc<Entry>> {
        let index = number.checked_sub(self.first)?;
        self.entries.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Add an entry, unless it is here or was, or is `most` numbers or more from the first. Returns whether it is new.
    pub(crate) fn insert(&mut self, entry: Rc<Entry>, most: usize) -> bool {
        let Some(index) = entry.number.checked_sub(self.first) else { return false };
        let Some(index) = usize::try_from(index).ok().filter(|index| *index < most) else { return false };
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        if self.entries[index].is_some() || entry.number < self.held {
            return false;
        }
        self.bytes += entry.payload.len();
        if entry.number > self.held {
            self.behind = Some(self.behind.map_or(entry.number, |behind| behind.min(entry.number)));
        }
        self.entries[index] = Some(entry);
        self.advance();
        true
    }

    fn advance(&mut self) {
        while self.get(self.held).is_some() {
            self.held += 1;
        }
        if self.behind.is_some_and(|behind| behind < self.held) {
            self.behind = (self.held..self.end()).find(|number| self.get(*number).is_some());
        }
    }

    /// A state contains all before this number: go on behind it, if the log itself does not reach it.
    pub(crate) fn skip_to(&mut self, number: Number) {
        if self.held < number {
            self.held = number;
            self.free(number);
            self.advance();
        }
    }

    /// Remove all from this number on.
    pub(crate) fn truncate(&mut self, end: Number) {
        let kept = usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        self.bytes -= bytes_of(self.entries.drain(kept..));
        self.held = self.held.min(end.max(self.first));
        self.behind = self.behind.filter(|behind| *behind < end);
    }

    /// Release all before this number. Numbers that are not held stay.
    pub(crate) fn free(&mut self, to: Number) {
        let to = to.min(self.held);
        if let Some(count) = to.checked_sub(self.first) {
            let count = self.entries.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            self.bytes -= bytes_of(self.entries.drain(..count));
            self.first = to;
        }
    }

    /// The first number from which on the log has at most this many bytes.
    pub(crate) fn first_within(&self, most: usize) -> Number {
        let (mut number, mut bytes) = (self.first, self.bytes);
        while bytes > most {
            bytes -= self.get(number).map_or(0, |entry| entry.payload.len());
            number += 1;
        }
        number
    }

    /// The numbers behind the first gap that are here, as ranges.
    pub(crate) fn ranges_behind_gap(&self, most: usize) -> Vec<(Number, Number)> {
        let mut ranges: Vec<(Number, Number)> = vec![];
        for number in (self.held..self.end()).filter(|number| self.get(*number).is_some()) {
            let last = ranges.last_mut().filter(|(_, end)| *end == number);
            if let Some((_, end)) = last {
                *end += 1;
            } else if ranges.len() < most {
                ranges.push((number, number + 1));
            } else {
                break;
            }
        }
        ranges
    }

    /// The first gap: from the first missing number to the next one that is here, or to `end`.
    pub(crate) fn gap(&self, end: Number) -> Option<(Number, Number)> {
        let to = self.behind.map_or(end, |behind| behind.min(end));
        (self.held < to).then_some((self.held, to))
    }
}

fn bytes_of(entries: impl Iterator<Item = Option<Rc<Entry>>>) -> usize {
    entries.flatten().map(|entry| entry.payload.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: Number) -> Rc<Entry> {
        let (epoch, sender, payload) = (Epoch(1), MemberId(1), Bytes::from_static(b"four"));
        Rc::new(Entry { epoch, number, sender, seq: 0, level: Level::Agreed, long: None, payload })
    }

    fn log(numbers: &[Number]) -> Log {
        let mut log = Log::starting_at(10);
        assert!(numbers.iter().all(|number| log.insert(entry(*number), 100)));
        log
    }

    #[test]
    fn a_prefix_grows_when_its_gap_is_filled() {
        let mut log = log(&[10, 12, 13, 16]);
        assert_eq!((log.held(), log.end(), log.gap(17)), (11, 17, Some((11, 12))));
        assert_eq!(log.ranges_behind_gap(9), [(12, 14), (16, 17)]);
        assert!(log.insert(entry(11), 100) && !log.insert(entry(11), 100), "once");
        assert_eq!((log.held(), log.gap(17), log.gap(14)), (14, Some((14, 16)), None));
    }

    #[test]
    fn what_is_freed_stays_away() {
        let mut log = log(&[10, 11, 13]);
        log.free(20);
        assert_eq!((log.first(), log.held(), log.end()), (12, 12, 14));
        assert!(!log.insert(entry(11), 100) && log.insert(entry(12), 100));
        assert_eq!(log.held(), 14);
    }

    #[test]
    fn the_bytes_of_what_is_kept_are_known() {
        let mut log = log(&[10, 11, 13, 14]);
        assert_eq!((log.bytes, log.first_within(16), log.first_within(15), log.first_within(7)), (16, 10, 11, 14));
        log.truncate(14);
        assert_eq!(log.bytes, 12);
        log.free(11);
        assert_eq!((log.bytes, log.first_within(0)), (8, 14));
    }

    #[test]
    fn a_state_takes_the_place_of_what_is_missing() {
        let mut log = log(&[10, 11, 13, 15]);
        log.skip_to(11);
        assert_eq!((log.first(), log.held()), (10, 12), "the log reaches further");
        log.skip_to(13);
        assert_eq!((log.first(), log.held(), log.end()), (13, 14, 16));
        log.skip_to(20);
        assert_eq!((log.first(), log.held(), log.end()), (20, 20, 20));
        assert!(log.insert(entry(20), 100) && log.held() == 21);
    }

    /// The first number behind the gap is that which a look at all numbers finds.
    #[test]
    fn the_end_of_a_gap_is_known_whatever_comes_and_goes() {
        let mut rng = 7_u64;
        let mut random = |below: u64| {
            rng = rng.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (rng >> 33) % below
        };
        let mut log = log(&[]);
        for _ in 0..20_000 {
            let near = log.held() + random(30);
            match random(20) {
                0 => log.truncate(near),
                1 => log.skip_to(near),
                2 => log.free(near),
                _ => _ = log.insert(entry(near), 100),
            }
            let looked = (log.held()..log.end()).find(|number| log.get(*number).is_some());
            assert_eq!(log.behind, looked, "{log:?}");
        }
    }

    #[test]
    fn an_entry_far_beyond_the_first_is_not_kept() {
        assert!(!log(&[]).insert(entry(110), 100) && log(&[]).insert(entry(109), 100));
    }

    #[test]
    fn a_truncated_log_takes_others_in_their_place() {
        let mut log = log(&[10, 11, 12]);
        log.truncate(11);
        assert_eq!((log.held(), log.end()), (11, 11));
        assert!(log.insert(entry(11), 100));
        log.truncate(5);
        assert_eq!((log.first(), log.held(), log.end()), (10, 10, 10));
    }
}
