//! The object that is measured.

use std::collections::VecDeque;

use am_objects::{Wire, object};

/// Counts its writes, keeps some bytes, and has a queue.
#[derive(Debug, Default, Wire)]
pub(crate) struct Subject {
    writes: u64,
    bytes: Vec<u8>,
    items: VecDeque<u64>,
    asked: u64,
}

#[object]
impl Subject {
    /// The writes that have run.
    #[read]
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// What was put last.
    #[read]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// The items that were asked for.
    #[read]
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// The null write.
    #[write]
    pub(crate) fn touch(&mut self) {
        self.writes += 1;
    }

    #[write]
    pub(crate) fn put(&mut self, bytes: Vec<u8>) {
        self.writes += 1;
        self.bytes = bytes;
    }

    /// A member waits in `pop` for one item more.
    #[write]
    pub(crate) fn ask(&mut self) {
        self.writes += 1;
        self.asked += 1;
    }

    #[write]
    pub(crate) fn push(&mut self, item: u64) {
        self.writes += 1;
        self.items.push_back(item);
    }

    #[write]
    #[guard(!self.items.is_empty())]
    pub(crate) fn pop(&mut self) -> u64 {
        self.writes += 1;
        self.items.pop_front().unwrap_or_default()
    }
}
