//! Sleep in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use am_netdev_sim::Nanos;

#[derive(Default)]
pub(crate) struct Timers {
    now: Cell<Nanos>,
    waiting: RefCell<BTreeMap<(Nanos, u64), Waker>>,
    added: Cell<u64>,
}

impl Timers {
    /// The time is this from now on. Wakes what slept until then.
    pub(crate) fn set(&self, now: Nanos) {
        self.now.set(now);
        loop {
            let mut waiting = self.waiting.borrow_mut();
            let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now) else { break };
            let waker = first.remove();
            drop(waiting);
            waker.wake();
        }
    }

    pub(crate) async fn sleep(&self, time: Nanos) {
        self.added.set(self.added.get() + 1);
        let ticket = (self.now.get() + time, self.added.get());
        poll_fn(|context| {
            if self.now.get() >= ticket.0 {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().insert(ticket, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
