//! Calls on their way from the program's threads to the node's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use am_api::NodeWaker;

use crate::error::CallError;
use crate::slot::{Outcome, Slot};

/// What a thread wants.
#[derive(Debug)]
pub(crate) enum Wish {
    Write {
        object: u64,
        operation: u16,
        arguments: Vec<u8>,
        slot: Arc<Slot>,
    },
    /// Nobody waits for this call any more.
    Cancel(Arc<Slot>),
}

/// Wishes in the order of each thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` once the space has ended.
    wishes: Mutex<Option<VecDeque<Wish>>>,
    waker: NodeWaker,
    owner: ThreadId,
}

impl Inbox {
    pub(crate) fn new(waker: NodeWaker) -> Inbox {
        Inbox { wishes: Mutex::new(Some(VecDeque::new())), waker, owner: thread::current().id() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Wish>>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_on_node_thread(&self) -> bool {
        self.owner == thread::current().id()
    }

    pub(crate) fn write(&self, object: u64, operation: u16, arguments: Vec<u8>) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let wish = Wish::Write { object, operation, arguments, slot: slot.clone() };
        if !self.push(wish) {
            slot.put(Err(CallError::Ended));
        }
        slot
    }

    pub(crate) fn cancel(&self, slot: Arc<Slot>) {
        self.push(Wish::Cancel(slot));
    }

    fn push(&self, wish: Wish) -> bool {
        let Some(()) = self.lock().as_mut().map(|wishes| wishes.push_back(wish)) else { return false };
        if !self.is_on_node_thread() {
            self.waker.wake();
        }
        true
    }

    pub(crate) fn pop(&self) -> Option<Wish> {
        self.lock().as_mut()?.pop_front()
    }

    /// The space has ended: what waits here, and what comes, gets this.
    pub(crate) fn close(&self, outcome: &Outcome) {
        let wishes = self.lock().take();
        for wish in wishes.into_iter().flatten() {
            if let Wish::Write { slot, .. } = wish {
                slot.put(outcome.clone());
            }
        }
    }
}
