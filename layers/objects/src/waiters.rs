//! The threads of the program that wait, while which a [`Helper`](crate::Helper) polls instead of sleeping.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The threads that wait for calls of a space.
#[derive(Debug, Default)]
pub(crate) struct Waiters(AtomicUsize);

/// One of them, until it is dropped.
pub(crate) struct Waiter<'a>(&'a Waiters);

impl Waiters {
    pub(crate) fn wait(&self) -> Waiter<'_> {
        self.0.fetch_add(1, Relaxed);
        Waiter(self)
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}
