//! The threads of the program that wait, while which a [`Helper`](crate::Helper) polls instead of sleeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;

use am_api::NodeWaker;

/// How many threads of the program wait.
pub(crate) struct Waiters {
    count: AtomicUsize,
    node: NodeWaker,
}

impl Waiters {
    pub(crate) fn new(node: NodeWaker) -> Arc<Waiters> {
        Arc::new(Waiters { count: AtomicUsize::new(0), node })
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    /// The calling thread waits, until this is dropped or woken.
    pub(crate) fn wait(self: &Arc<Self>) -> Arc<Waiter> {
        // A node's thread that sleeps has to poll from now on.
        if self.count.fetch_add(1, SeqCst) == 0 {
            self.node.wake();
        }
        Arc::new(Waiter { all: self.clone(), thread: thread::current(), waits: AtomicBool::new(true) })
    }
}

/// A thread of the program that waits.
pub(crate) struct Waiter {
    all: Arc<Waiters>,
    thread: Thread,
    waits: AtomicBool,
}

impl Waiter {
    /// It goes on. The thread that gives it the outcome says so, and not the waiter itself: on one core the waiter runs only once that
    /// thread sleeps.
    pub(crate) fn end(&self) {
        if self.waits.swap(false, SeqCst) {
            self.all.count.fetch_sub(1, SeqCst);
        }
    }

    /// Sleep until it is woken, or until this time. Returns whether it was woken.
    pub(crate) fn park(&self, until: Option<Instant>) -> bool {
        while self.waits.load(SeqCst) {
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if left.is_zero() => return false,
                Some(left) => thread::park_timeout(left),
            }
        }
        true
    }
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.end();
        self.thread.unpark();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.end();
    }
}
