//! What is known of the requests that are to be answered in time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use am_proto::{FlowId, Time};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};

use crate::{HandlerId, Id};

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) flow: FlowId,
    pub(crate) handler: HandlerId,
}

/// Those of an endpoint that wait for an answer. No request allocates where as many waited before.
#[derive(Debug)]
pub(crate) struct Deadlines {
    waiting: SlotMap<DefaultKey, Waiting>,
    /// When each is late, and some that were answered.
    due: BinaryHeap<Reverse<(Time, DefaultKey)>>,
    /// The first of these.
    next: Time,
}

/// So many more than there are that wait may be in the heap.
const MAX_STALE: usize = 64;

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { waiting: SlotMap::new(), due: BinaryHeap::new(), next: Time::NEVER }
    }
}

impl Deadlines {
    /// What it is called from now on.
    pub(crate) fn add(&mut self, waiting: Waiting, due: Time) -> Id {
        let Deadlines { waiting: all, due: heap, .. } = self;
        let key = all.insert(waiting);
        if heap.len() > 2 * all.len() + MAX_STALE {
            heap.retain(|Reverse((_, key))| all.contains_key(*key));
        }
        heap.push(Reverse((due, key)));
        self.next = self.next.min(due);
        Id(key.data().as_ffi())
    }

    /// Whether this one waits; it does not any more.
    pub(crate) fn take(&mut self, id: u64, is_it: impl Fn(&Waiting) -> bool) -> bool {
        let key = DefaultKey::from(KeyData::from_ffi(id));
        self.waiting.get(key).is_some_and(is_it) && self.waiting.remove(key).is_some()
    }

    /// When the next one may be late.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// One that is late.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Id, Waiting)> {
        while let Some(&Reverse((_, key))) = self.due.peek().filter(|Reverse((due, _))| *due <= now) {
            self.due.pop();
            if let Some(waiting) = self.waiting.remove(key) {
                return Some((Id(key.data().as_ffi()), waiting));
            }
        }
        self.next = self.due.peek().map_or(Time::NEVER, |Reverse((due, _))| *due);
        None
    }
}
