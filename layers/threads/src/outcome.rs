//! Transfers for the driver, and where the threads find their outcomes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use am_api::{RegionId, Rights, TransferError};

use crate::CallError;

/// Why a transfer, or the registration of memory, has failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedTransferError {
    /// It did not begin.
    #[error(transparent)]
    NotBegun(#[from] CallError),
    /// It began, or would never be possible.
    #[error(transparent)]
    Failed(#[from] TransferError),
    /// There is no memory for what it would get.
    #[error("no memory for {0} bytes; get less at a time")]
    NoMemory(u64),
}

am_api::debug_as_display!(SharedTransferError);

/// Where a thread finds an outcome.
pub(crate) struct Slot<T> {
    state: Mutex<SlotState<T>>,
    pub(crate) is_dropped: AtomicBool,
}

pub(crate) struct SlotState<T> {
    pub(crate) outcome: Option<Result<T, SharedTransferError>>,
    pub(crate) waker: Option<Waker>,
    pub(crate) is_over: bool,
}

impl<T> Slot<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver's half. If it is dropped without an outcome, the outcome is that the driver was dropped.
pub(crate) struct Finish<T> {
    /// The number of transfers without an outcome.
    count: Arc<AtomicUsize>,
    slot: Arc<Slot<T>>,
}

/// A place for an outcome, and the driver's half of it. Returns the number of transfers that had no outcome before, too.
pub(crate) fn outcome<T>(count: &Arc<AtomicUsize>) -> (Finish<T>, Arc<Slot<T>>, usize) {
    let state = Mutex::new(SlotState { outcome: None, waker: None, is_over: false });
    let slot = Arc::new(Slot { state, is_dropped: AtomicBool::new(false) });
    let before = count.fetch_add(1, SeqCst);
    (Finish { count: count.clone(), slot: slot.clone() }, slot, before)
}

impl<T> Finish<T> {
    pub(crate) fn finish(self, outcome: Result<T, SharedTransferError>) {
        self.set(outcome);
    }

    /// Whether no thread waits for the outcome.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.slot.is_dropped.load(SeqCst)
    }

    fn set(&self, outcome: Result<T, SharedTransferError>) {
        let mut state = self.slot.lock();
        if !state.is_over {
            (state.outcome, state.is_over) = (Some(outcome), true);
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, SeqCst);
        self.set(Err(CallError::NodeDropped.into()));
    }
}

/// What a put sends.
pub(crate) struct Data(pub(crate) Box<dyn AsRef<[u8]> + Send>);

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// A transfer to begin.
pub(crate) enum Task {
    Put { region: RegionId, offset: u64, data: Data, finish: Finish<()> },
    Get { region: RegionId, offset: u64, memory: Result<Box<[u8]>, SharedTransferError>, finish: Finish<Box<[u8]>> },
}

impl Task {
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Task::Put { finish, .. } => finish.is_cancelled(),
            Task::Get { finish, .. } => finish.is_cancelled(),
        }
    }

    pub(crate) fn fail(self, why: SharedTransferError) {
        match self {
            Task::Put { finish, .. } => finish.finish(Err(why)),
            Task::Get { finish, .. } => finish.finish(Err(why)),
        }
    }
}

/// A region to register, or whose memory is wanted back.
pub(crate) enum RegionPost {
    Register { memory: Box<[u8]>, rights: Rights, finish: Finish<RegionId> },
    End { region: RegionId, finish: Finish<Box<[u8]>> },
}
