//! Waits for a future on a thread without an executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wait for this future on a thread without an executor.
pub(crate) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    PARKED.with(|waker| {
        let mut cx = Context::from_waker(waker);
        loop {
            match Pin::new(&mut future).poll(&mut cx) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    })
}

thread_local!(static PARKED: Waker = Arc::new(Unpark(thread::current())).into());

/// Ends the wait of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
