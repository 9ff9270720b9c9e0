//! Transfers from any thread: memory that peers may use, puts and gets, each a future with one outcome.
//!
//! ```text
//!   put(..), get(..) ──▶ queue of the peer ──▶ under way at the node ──▶ outcome
//!   register(..) ──────────────────────────▶ the node's thread ──────▶ SharedRegion
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use am_api::{RegionId, Rights, TransferError};

use crate::error::MAX_CALLS;
use crate::outcome::{Data, Finish, RegionPost, SharedTransferError, Slot, Task, outcome};
use crate::park::block_on;
use crate::shared::{Post, Shared};
use crate::{CallError, Peer, SharedEndpoint};

/// The future of a transfer's outcome. Any executor can poll it, and a thread without one can [`wait`](SharedTransfer::wait). The transfer goes
/// on without being polled. Dropping the future cancels it; the peer may have got a part.
#[must_use = "the outcome is in the future; dropping it cancels the transfer"]
pub struct SharedTransfer<T> {
    shared: Arc<Shared>,
    slot: Arc<Slot<T>>,
}

/// Post this for the driver, or fail: too many transfers have no outcome yet.
fn post<T>(shared: &Arc<Shared>, with: impl FnOnce(Finish<T>) -> Post) -> SharedTransfer<T> {
    let (finish, slot, before) = outcome(&shared.transfers);
    if before < MAX_CALLS {
        shared.post_or_drop(with(finish));
    } else {
        finish.finish(Err(CallError::TooManyCalls.into()));
    }
    SharedTransfer { shared: shared.clone(), slot }
}

impl<T> SharedTransfer<T> {
    /// Wait for the outcome. Not on the node's thread.
    ///
    /// # Errors
    /// See [`SharedTransferError`].
    pub fn wait(self) -> Result<T, SharedTransferError> {
        if self.shared.is_own_thread() { Err(CallError::OnNodeThread.into()) } else { block_on(self) }
    }
}

impl<T> Future for SharedTransfer<T> {
    type Output = Result<T, SharedTransferError>;

    /// # Panics
    /// If it has returned its outcome before.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        assert!(!state.is_over, "polled after its outcome");
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for SharedTransfer<T> {
    fn drop(&mut self) {
        self.slot.is_dropped.store(true, SeqCst);
        if !self.slot.lock().is_over {
            self.shared.post_or_drop(Post::Cancel);
        }
    }
}

impl<T> fmt::Debug for SharedTransfer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTransfer").finish_non_exhaustive()
    }
}

impl SharedEndpoint {
    /// Register memory that peers of this endpoint may use as `rights` allow: the future of the region's id. Send the id to them.
    /// [`Handlers::on_transfer`](crate::Handlers::on_transfer) reports what they did. The region lasts until
    /// [`unregister`](SharedEndpoint::unregister), or as long as the driver.
    pub fn register(&self, memory: impl Into<Box<[u8]>>, rights: Rights) -> SharedTransfer<RegionId> {
        let memory = memory.into();
        post(self.shared(), |finish| Post::Region(RegionPost::Register { memory, rights, finish }))
    }

    /// End a region, once no transfer uses it: the future of its memory. If the future is dropped, so is the memory.
    pub fn unregister(&self, region: RegionId) -> SharedTransfer<Box<[u8]>> {
        post(self.shared(), |finish| Post::Region(RegionPost::End { region, finish }))
    }

    /// Put `data` into the peer's region, from `offset` on (as [`Endpoint::put`](am_api::Endpoint::put)). While the peer is not connected,
    /// the transfer waits.
    pub fn put(
        &self,
        to: Peer,
        region: RegionId,
        offset: u64,
        data: impl AsRef<[u8]> + Send + 'static,
    ) -> SharedTransfer<()> {
        let data = Data(Box::new(data));
        post(self.shared(), |finish| Post::Transfer(to, Task::Put { region, offset, data, finish }))
    }

    /// Get `length` bytes of the peer's region, from `offset` on (as [`Endpoint::get`](am_api::Endpoint::get)). While the peer is not
    /// connected, the transfer waits.
    pub fn get(&self, from: Peer, region: RegionId, offset: u64, length: u64) -> SharedTransfer<Box<[u8]>> {
        let memory = memory_for(length);
        post(self.shared(), |finish| Post::Transfer(from, Task::Get { region, offset, memory, finish }))
    }
}

fn memory_for(length: u64) -> Result<Box<[u8]>, SharedTransferError> {
    let bytes = u32::try_from(length).map_err(|_| TransferError::TooLong)? as usize;
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| SharedTransferError::NoMemory(length))?;
    memory.resize(bytes, 0);
    Ok(memory.into())
}
