//! How a call that runs is told that nobody waits for it.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// Why a call was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The caller dropped it.
    ByCaller,
    /// Its time is over.
    Deadline,
    /// The connection to the caller has ended.
    Disconnected,
}

/// Wake this one, too.
pub(crate) fn add_waker(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|each| each.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

/// How a call that became a task is told that nobody waits for it.
#[derive(Debug, Default)]
pub(crate) struct Control {
    cancelled: Cell<Option<Cancelled>>,
    wakers: RefCell<Vec<Waker>>,
}

impl Control {
    pub(crate) fn cancel(&self, why: Cancelled) {
        if self.cancelled.get().is_none() {
            self.cancelled.set(Some(why));
            let wakers = self.wakers.take();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Why it was cancelled, if it was.
    pub(crate) fn cancelled(&self) -> Option<Cancelled> {
        self.cancelled.get()
    }

    /// Wake this once it is cancelled.
    pub(crate) fn wake_by(&self, waker: &Waker) {
        add_waker(&mut self.wakers.borrow_mut(), waker);
    }
}
