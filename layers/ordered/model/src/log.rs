//! The messages that a process holds, by their numbers.

use am_ordered_core::{Epoch, MemberId, Number};

/// A message, named by the sequencer that stamped it. With its number it names one message: a sequencer gives a number of its epoch once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The epoch in which it was stamped.
    pub epoch: Epoch,
    /// The sequencer that stamped it.
    pub by: MemberId,
    /// Whether it is delivered as `Safe`.
    pub is_safe: bool,
}

/// The rules of the core's log, without its memory management.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    first: Number,
    held: Number,
    entries: Vec<Option<Entry>>,
}

impl Log {
    /// A log behind a state that contains all messages before this number.
    pub fn starting_at(first: Number) -> Log {
        Log { first, held: first, entries: vec![] }
    }

    /// The state contains all before this one.
    pub fn first(&self) -> Number {
        self.first
    }

    /// All before this number are here, or in the state with which the process began.
    pub fn held(&self) -> Number {
        self.held
    }

    /// Beyond the last entry.
    pub fn end(&self) -> Number {
        self.first + self.entries.len() as Number
    }

    /// The message with this number.
    pub fn get(&self, number: Number) -> Option<Entry> {
        let index = number.checked_sub(self.first)?;
        *self.entries.get(index as usize)?
    }

    /// Add a message, unless its number is taken.
    pub fn insert(&mut self, number: Number, entry: Entry) {
        if number < self.held || self.get(number).is_some() {
            return;
        }
        let index = (number - self.first) as usize;
        self.entries.resize(self.entries.len().max(index + 1), None);
        self.entries[index] = Some(entry);
        self.advance();
    }

    fn advance(&mut self) {
        while self.get(self.held).is_some() {
            self.held += 1;
        }
    }

    /// Remove all from this number on.
    pub fn truncate(&mut self, end: Number) {
        self.entries.truncate(end.saturating_sub(self.first) as usize);
        while self.entries.last() == Some(&None) {
            self.entries.pop();
        }
        self.held = self.held.min(end.max(self.first));
    }

    /// A state contains all before this number: go on from there, if the log itself does not reach it.
    pub fn skip_to(&mut self, number: Number) {
        if number > self.held {
            let dropped = ((number - self.first) as usize).min(self.entries.len());
            self.entries.drain(..dropped);
            (self.first, self.held) = (number, number);
            self.advance();
        }
    }

    /// The numbers behind the first gap that are here, as ranges.
    pub fn ranges_behind_gap(&self) -> Vec<(Number, Number)> {
        let here = (self.held..self.end()).filter(|number| self.get(*number).is_some());
        here.map(|number| (number, number + 1)).collect()
    }
}
