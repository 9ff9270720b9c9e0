//! Calls from any thread: a future with one outcome.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use am_api::{Connection, HandlerId, Incarnation, RequestError};
use slotmap::DefaultKey;

use crate::error::MAX_CALLS;
use crate::park::block_on;
use crate::shared::{AnswerHead, CallSlot, Phase, Post, Shared, after};
use crate::words::Words;
use crate::{CallError, Peer, SharedEndpoint};

impl SharedEndpoint {
    /// A request with one outcome within this time: an answer, or a [`CallError`]. It is sent even if the future is not polled. If the
    /// future is dropped, the outcome is dropped too.
    ///
    /// The peer's handler answers with [`SendToken::answer`](crate::SendToken::answer) or [`Token::answer`](am_api::Token::answer). The words
    /// given here are at most 3, because the call's id is the first word (as with [`Endpoint::try_call`](am_api::Endpoint::try_call)).
    ///
    /// While the peer is not connected, or has no room, the call waits. With [`Reconnect::After`](crate::Reconnect::After), a call that
    /// returned and was certainly not handled is sent again.
    pub fn call(&self, to: Peer, handler: HandlerId, words: &[u64], payload: &[u8], within: Duration) -> Call {
        let shared = self.shared().clone();
        match post(&shared, to, handler, words, payload, within) {
            Ok(key) => Call { shared, state: CallState::Posted(key) },
            Err(error) => Call { shared, state: CallState::Failed(error) },
        }
    }
}

fn post(
    shared: &Arc<Shared>,
    to: Peer,
    handler: HandlerId,
    words: &[u64],
    payload: &[u8],
    within: Duration,
) -> Result<DefaultKey, CallError> {
    const MOST: usize = 3;
    let too_many = RequestError::TooManyWords { count: words.len(), most: MOST };
    let words = Words::new(words).filter(|words| words.as_slice().len() <= MOST).ok_or(too_many)?;
    if shared.reply_handlers.contains(&handler) {
        return Err(CallError::HasReplyHandler);
    }
    let mut state = shared.lock();
    if state.is_closed {
        return Err(CallError::NodeDropped);
    }
    if state.calls.len() >= MAX_CALLS {
        return Err(CallError::TooManyCalls);
    }
    let due = after(Instant::now(), within);
    let payload = state.buffer(payload);
    let key = state.calls.insert(CallSlot { phase: Phase::Waiting, handler, words, payload, due, waker: None });
    shared.post(state, Post::Call(key, to));
    Ok(key)
}

/// A call: the future of its outcome. Any executor can poll it. A thread without an executor can [`wait`](Call::wait).
#[must_use = "the outcome of a call is in its future; drop it to cancel the call"]
pub struct Call {
    shared: Arc<Shared>,
    state: CallState,
}

enum CallState {
    Posted(DefaultKey),
    Failed(CallError),
    Over,
}

impl Call {
    /// Wait for the outcome. Not on the node's thread.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn wait(self) -> Result<Answer, CallError> {
        if self.shared.is_own_thread() {
            return Err(CallError::OnNodeThread);
        }
        block_on(self)
    }
}

impl Future for Call {
    type Output = Result<Answer, CallError>;

    /// # Panics
    /// If it has returned its outcome before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let CallState::Posted(key) = self.state else {
            return match std::mem::replace(&mut self.state, CallState::Over) {
                CallState::Failed(error) => Poll::Ready(Err(error)),
                _ => panic!("polled after its outcome"),
            };
        };
        let shared = self.shared.clone();
        let mut state = shared.lock();
        match state.calls.get_mut(key) {
            Some(slot) if matches!(slot.phase, Phase::Waiting) => {
                match &mut slot.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            _ => self.state = CallState::Over,
        }
        let slot = state.calls.remove(key);
        let outcome = match slot {
            Some(CallSlot { phase: Phase::Done(Ok(head)), payload, .. }) => {
                drop(state);
                Ok(Answer { head, payload, shared })
            }
            Some(CallSlot { phase: Phase::Done(Err(error)), payload, .. }) => {
                state.recycle(payload);
                Err(error)
            }
            _ => Err(CallError::NodeDropped),
        };
        Poll::Ready(outcome)
    }
}

impl Drop for Call {
    /// Cancels the call. The peer may still handle its request.
    fn drop(&mut self) {
        let CallState::Posted(key) = self.state else { return };
        let mut state = self.shared.lock();
        let is_closed = state.is_closed;
        let Some(slot) = state.calls.get_mut(key) else { return };
        let waker = slot.waker.take();
        if matches!(slot.phase, Phase::Waiting) && !is_closed {
            // The driver may have the key, so it removes the slot.
            slot.phase = Phase::Cancelled;
        } else {
            state.remove_call(key);
        }
        drop(state);
        // The drop of a waker runs code of the program, so drop it without the lock.
        drop(waker);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// The answer to a call. It derefs to the payload.
pub struct Answer {
    head: AnswerHead,
    payload: Vec<u8>,
    shared: Arc<Shared>,
}

impl Answer {
    /// The words after the call's id.
    pub fn words(&self) -> &[u64] {
        self.head.words.as_slice()
    }

    /// The connection on which it arrived. A restart of the peer ends it. So between two answers on one connection the peer was not
    /// restarted, and it still has what it did not save.
    pub fn connection(&self) -> Connection {
        self.head.connection
    }

    /// The run of the peer's node, as this node knows it: see [`Endpoint::incarnation`](am_api::Endpoint::incarnation). It says whether a
    /// peer whose [connection](Answer::connection) is another one was restarted.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.head.incarnation
    }

    /// The word with this index, counted after the call's id; 0 if there are fewer words.
    pub fn word(&self, at: usize) -> u64 {
        self.words().get(at).copied().unwrap_or_default()
    }
}

impl Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.payload
    }
}

impl Drop for Answer {
    /// Keep its buffer for the next call.
    fn drop(&mut self) {
        self.shared.lock().recycle(std::mem::take(&mut self.payload));
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("words", &self.words()).field("bytes", &self.payload.len()).finish()
    }
}
