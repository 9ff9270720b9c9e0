//! What was sent, what came, what of it was wrong.

use std::collections::HashMap;
use std::time::Instant;

use am_api::Message;
use serde_json::json;

use crate::content::Shape;
use crate::program::say;

/// What one phase counts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) phase: &'static str,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of payload that were compared.
    pub(crate) bytes: u64,
    pub(crate) wrong: u64,
    /// Of what was wrong the first.
    pub(crate) first: Option<String>,
    /// Messages that are to be answered: the key of each, and how long it is.
    awaited: HashMap<u64, Shape>,
    /// Those that the phase before has given up: they may still come.
    late: HashMap<u64, Shape>,
    /// Of phases that are over, those that never came.
    lost: u64,
    began: Option<Instant>,
}

impl Ledger {
    pub(crate) fn new(phase: &'static str) -> Ledger {
        Ledger { phase, began: Some(Instant::now()), ..Ledger::default() }
    }

    /// The next phase, which is not to blame for what comes late.
    pub(crate) fn follow(&mut self, phase: &'static str) {
        let late = self.late.drain().chain(self.awaited.drain()).collect();
        *self = Ledger { late, ..Ledger::new(phase) };
    }

    /// This one was sent, and its echo is to come.
    pub(crate) fn await_echo(&mut self, shape: Shape) {
        self.sent += 1;
        self.awaited.insert(key(shape), shape);
    }

    /// A message as it was sent, or not.
    pub(crate) fn check<S>(&mut self, message: &Message<'_, S>) {
        self.received += 1;
        self.bytes += message.payload().len() as u64;
        if let Some(flaw) = Shape::flaw(message) {
            self.wrong(flaw);
        }
    }

    /// An echo: it is one that was awaited, and is so no longer.
    pub(crate) fn check_echo<S>(&mut self, message: &Message<'_, S>) {
        self.check(message);
        let shape = Shape::claimed(message);
        if self.late.remove(&key(shape)) == Some(shape) {
            self.received -= 1;
        } else if self.awaited.remove(&key(shape)) != Some(shape) {
            self.wrong(format!("nobody waits for a message of {} words, {} bytes", shape.words, shape.length));
        }
    }

    /// A message of ours that came back. Where only its acknowledgement is missing its echo may have come before.
    pub(crate) fn check_returned<S>(&mut self, message: &Message<'_, S>) {
        self.check(message);
        if self.awaited.remove(&key(Shape::claimed(message))).is_none() {
            self.received -= 1;
        }
    }

    /// The peer got it, and not as it was sent.
    pub(crate) fn spoilt(&mut self, number: u64) {
        self.received += 1;
        if number == 0 {
            // It has no words to say which: it is the only one under way.
            self.awaited.clear();
        }
        self.awaited.remove(&number);
        self.wrong("the peer received it otherwise than it was sent; see its line".to_owned());
    }

    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong += 1;
        self.first.get_or_insert(what);
    }

    /// What was sent and has not come back.
    pub(crate) fn missing(&self) -> u64 {
        self.lost + self.awaited()
    }

    /// What may still be answered.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited.len() as u64
    }

    /// Wait for none of these any more.
    pub(crate) fn give_up(&mut self) {
        self.lost += self.awaited();
        self.awaited.clear();
    }

    /// The same in a sum of several.
    pub(crate) fn add(&mut self, phase: &Ledger) {
        self.sent += phase.sent;
        self.received += phase.received;
        self.bytes += phase.bytes;
        self.wrong += phase.wrong;
        self.lost += phase.missing();
        if self.first.is_none() {
            self.first.clone_from(&phase.first);
        }
    }

    /// So many, at most, are no longer waited for.
    pub(crate) fn forget_up_to(&mut self, most: u64) {
        if self.missing() <= most {
            self.awaited.clear();
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.wrong == 0 && self.awaited.is_empty() && self.received > 0
    }

    /// A line of JSON.
    pub(crate) fn print(&self, more: &serde_json::Value) {
        let seconds = self.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let mut line = json!({
            "phase": self.phase, "sent": self.sent, "received": self.received, "bytes": self.bytes,
            "wrong": self.wrong, "missing": self.missing(), "first": self.first,
            "seconds": (seconds * 100.0).round() / 100.0,
        });
        if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
            line.extend(more.clone());
        }
        say(&line);
    }
}

/// Of messages without words, which say no number, one of each length is under way.
fn key(shape: Shape) -> u64 {
    if shape.words == 0 { u64::MAX - shape.length as u64 } else { shape.number }
}
