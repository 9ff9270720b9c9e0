//! Waiting for a time.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use crate::deadlines::Ticket;
use crate::runtime::Runtime;

/// The future of [`Local::sleep`](crate::Local::sleep). It ends with its [`Rpc`](crate::Rpc), too.
#[must_use = "it waits only while it is polled"]
pub struct Sleep {
    runtime: Rc<Runtime>,
    until: Duration,
    ticket: Option<Ticket>,
}

impl Sleep {
    pub(crate) fn new(runtime: &Rc<Runtime>, time: Duration) -> Sleep {
        Sleep { runtime: runtime.clone(), until: runtime.sender.time().saturating_add(time), ticket: None }
    }

    fn forget(&mut self) {
        self.ticket.take().into_iter().for_each(|ticket| self.runtime.timers.borrow_mut().remove(ticket));
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        self.forget();
        if self.until <= self.runtime.sender.time() || self.runtime.is_closed() {
            return Poll::Ready(());
        }
        self.ticket = Some(self.runtime.add_timer(self.until, context.waker()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}
