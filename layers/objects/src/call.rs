//! A call and its result.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use am_rpc::codec::Decode;

use crate::error::CallError;
use crate::inbox::Inbox;
use crate::running;
use crate::slot::Slot;

/// A call of an operation: a future of its result. A read of a replicated object has its result at once.
///
/// A write runs whether or not its call is waited for. One whose guard does not hold waits for it only as long as the call lives: dropping the call
/// takes it back, if it has not run.
#[must_use = "the result, and whether there is one, is in the call: await it, or give it to `Space::block_on`"]
#[derive(Debug)]
pub struct Call<R>(State<R>);

#[derive(Debug)]
enum State<R> {
    /// `None` once it was taken.
    Ready(Option<Result<R, CallError>>),
    Pending(Pending<R>),
}

#[derive(Debug)]
struct Pending<R> {
    slot: Arc<Slot>,
    inbox: Arc<Inbox>,
    may_wait: bool,
    result: PhantomData<fn() -> R>,
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        if self.may_wait && self.slot.is_empty() {
            self.inbox.cancel(self.slot.clone());
        }
    }
}

impl<R> Call<R> {
    pub(crate) fn ready(result: Result<R, CallError>) -> Call<R> {
        Call(State::Ready(Some(result)))
    }

    pub(crate) fn pending(slot: Arc<Slot>, inbox: Arc<Inbox>, may_wait: bool) -> Call<R> {
        Call(State::Pending(Pending { slot, inbox, may_wait, result: PhantomData }))
    }
}

impl<R: for<'a> Decode<'a>> Call<R> {
    /// The result, if it is there.
    ///
    /// # Errors
    /// The call itself, if it is not.
    #[inline]
    pub fn now(self) -> Result<Result<R, CallError>, Call<R>> {
        match self.0 {
            State::Ready(Some(result)) => Ok(result),
            State::Pending(pending) => {
                let result = pending.slot.lock().result();
                result.ok_or(Call(State::Pending(pending)))
            }
            State::Ready(None) => Ok(Err(CallError::Unknown)),
        }
    }

    /// Wait for the result, on a thread that does not poll the space. Without a majority of the space's processes it waits for the space's
    /// [patience](crate::Builder::patience), and for a guard as long as it takes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn wait(self) -> Result<R, CallError> {
        match self.now() {
            Ok(result) => result,
            Err(Call(State::Pending(_))) if running::any() => Err(CallError::InOperation),
            Err(Call(State::Pending(pending))) if pending.inbox.is_on_node_thread() => Err(CallError::OnNodeThread),
            Err(Call(State::Pending(pending))) => {
                let _waits = pending.inbox.waiters.wait();
                pending.slot.wait()
            }
            Err(Call(State::Ready(_))) => Err(CallError::Unknown),
        }
    }
}

// A result that is there is moved out, and nothing points into a call.
impl<R> Unpin for Call<R> {}

impl<R: for<'a> Decode<'a>> Future for Call<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, CallError>> {
        match &mut self.0 {
            State::Ready(result) => Poll::Ready(result.take().unwrap_or(Err(CallError::Unknown))),
            State::Pending(pending) => {
                let mut state = pending.slot.lock();
                if let Some(result) = state.result() {
                    return Poll::Ready(result);
                }
                state.wake(cx.waker());
                Poll::Pending
            }
        }
    }
}
