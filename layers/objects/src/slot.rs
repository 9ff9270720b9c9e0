//! Where a call's result is put.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use am_rpc::codec::{Decode, from_bytes};

use crate::error::CallError;

/// What a call returns, in bytes.
pub(crate) type Outcome = Result<Vec<u8>, CallError>;

/// A place for a call's result. A thread or a task can wait for it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<Waiting>,
    is_there: Condvar,
    /// The call's number and one, once it has one.
    numbered: AtomicU64,
}

/// The result, or the task to wake once it is there.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Waiting {
    /// The result, for the one that waits for it.
    pub(crate) fn result<R: for<'a> Decode<'a>>(&self) -> Option<Result<R, CallError>> {
        Some(match self.outcome.as_ref()? {
            Ok(bytes) => from_bytes(bytes).map_err(|_| CallError::Malformed),
            Err(why) => Err(*why),
        })
    }

    /// This is woken once there is a result.
    pub(crate) fn wake(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}

impl Slot {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call has this number.
    pub(crate) fn set_number(&self, call: u64) {
        self.numbered.store(call + 1, Relaxed);
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.numbered.load(Relaxed).checked_sub(1)
    }

    /// Sleep until there is a result.
    pub(crate) fn wait<R: for<'a> Decode<'a>>(&self) -> Result<R, CallError> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.result() {
                return result;
            }
            state = self.is_there.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The result is there. Only the first one counts.
    pub(crate) fn put(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.outcome.get_or_insert(outcome);
        let waker = state.waker.take();
        drop(state);
        self.is_there.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().outcome.is_none()
    }
}
