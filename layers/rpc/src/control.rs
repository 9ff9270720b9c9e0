//! How a call that runs is told that nobody waits for it.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::wakers::{Place, Wakers};

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

/// How a call that became a task is told that nobody waits for it.
#[derive(Debug, Default)]
pub(crate) struct Control {
    cancelled: Cell<Option<Cancelled>>,
    wakers: RefCell<Wakers>,
}

impl Control {
    pub(crate) fn cancel(&self, why: Cancelled) {
        if self.cancelled.get().is_none() {
            self.cancelled.set(Some(why));
            let wakers = self.wakers.borrow_mut().take();
            wakers.for_each(Waker::wake);
        }
    }

    /// Why it was cancelled, if it was.
    pub(crate) fn cancelled(&self) -> Option<Cancelled> {
        self.cancelled.get()
    }

    /// Waits until it is cancelled.
    pub(crate) fn wait(&self) -> Cancelling<'_> {
        Cancelling { control: self, place: None }
    }
}

/// The future of [`Control::wait`].
pub(crate) struct Cancelling<'a> {
    control: &'a Control,
    place: Place,
}

impl Future for Cancelling<'_> {
    type Output = Cancelled;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cancelled> {
        let Cancelling { control, place } = &mut *self;
        if let Some(why) = control.cancelled() {
            return Poll::Ready(why);
        }
        let old = control.wakers.borrow_mut().add(place, context.waker());
        drop(old);
        Poll::Pending
    }
}

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        let own = self.control.wakers.borrow_mut().remove(&mut self.place);
        drop(own);
    }
}
