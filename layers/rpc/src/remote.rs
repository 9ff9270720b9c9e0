//! Calls from any thread: what they do runs on the node's thread, as a task.
//!
//! ```text
//!   any thread                                the node's thread
//!   remote.run(|local| async { .. })
//!      │ job ───────────────────────────────▶ a task, which calls and awaits
//!   task.await, task.wait() ◀──── outcome ───────┘
//!   task dropped ────────────────────────────▶ the task is dropped, and so its calls are cancelled
//! ```
//!
//! While a thread waits for an outcome, the node's thread may poll instead of sleeping ([`Helper`](crate::Helper)).

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Context as PollContext, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use am_api::NodeWaker;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::local::Local;
use crate::tasks::Woken;
use crate::waiters::Waiters;

/// The most jobs that wait for the node's thread.
pub const MAX_JOBS: usize = 1 << 14;

type Job = Box<dyn FnOnce(&Local) + Send>;

/// The most jobs that begin in one turn: a job may post another one.
const MAX_BEGUN: usize = 64;

/// Lets any thread call. [`Rpc::remote`](crate::Rpc::remote) returns it.
///
/// ```
/// use am_rpc::{CallError, Remote, service};
///
/// #[service]
/// trait Store {
///     fn get(&self, key: &str) -> Vec<u8>;
/// }
///
/// /// From a thread that does not poll. The peer is connected once, and kept where the calls are made.
/// fn length(remote: &Remote, key: String) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
///     let task = remote.run(move |local| {
///         let peer = local.peer("beta");
///         async move { Ok::<_, Box<dyn std::error::Error + Send + Sync>>(StoreClient::new(&peer?).get(&key).await?.len()) }
///     });
///     task.wait()?
/// }
/// ```
#[derive(Clone)]
pub struct Remote {
    jobs: SyncSender<Job>,
    woken: Arc<Woken>,
    node: ThreadId,
    pub(crate) waiters: Arc<Waiters>,
}

/// What other threads have posted.
pub(crate) struct Jobs {
    waiting: Receiver<Job>,
    woken: Arc<Woken>,
}

impl Jobs {
    pub(crate) fn new(waker: NodeWaker) -> (Remote, Jobs) {
        let (jobs, waiting) = sync_channel(MAX_JOBS);
        let (woken, waiters) = (Woken::new(waker.clone()), Waiters::new(waker));
        (Remote { jobs, woken: woken.clone(), node: thread::current().id(), waiters }, Jobs { waiting, woken })
    }

    /// Begin what was posted. Returns whether there was something.
    #[inline]
    pub(crate) fn begin(&self, local: &Local) -> bool {
        if !self.woken.take() {
            return false;
        }
        let begun = self.waiting.try_iter().take(MAX_BEGUN).map(|job| job(local)).count();
        if begun == MAX_BEGUN {
            self.woken.wake_by_ref();
        }
        begun > 0
    }
}

impl Remote {
    /// Run this on the node's thread: `begin`, and then the future that it returns, as a task. If the task that this returns is dropped, so is
    /// the future. The node's thread has to poll: in `wait`, `block_on`, or as a [`Helper`](crate::Helper).
    pub fn run<F, T>(&self, begin: impl FnOnce(Local) -> F + Send + 'static) -> RemoteTask<T>
    where
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (mut give, outcome) = oneshot::channel();
        let job = move |local: &Local| {
            if give.is_canceled() {
                return;
            }
            let future = begin(local.clone());
            local.spawn(async move {
                let outcome = match select(pin!(future), give.cancellation()).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => return,
                };
                _ = give.send(outcome);
            });
        };
        // If it is full or closed, the job is dropped, and its task fails.
        if self.jobs.try_send(Box::new(job)).is_ok() {
            self.woken.wake_by_ref();
        }
        RemoteTask { outcome, node: self.node, waiters: self.waiters.clone() }
    }

    /// End the sleep of the node's thread.
    pub(crate) fn wake(&self) {
        self.woken.wake_by_ref();
    }

    /// Wait by other means than [`RemoteTask::wait`], such as a lock or a barrier: a [`Helper`](crate::Helper) polls meanwhile, because the
    /// program does not need its core.
    pub fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        let _waiter = self.waiters.wait();
        wait()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

/// The future of what [`Remote::run`] runs. Any executor can poll it; a thread without one can [`wait`](RemoteTask::wait).
#[must_use = "dropping it cancels the calls that it waits for"]
pub struct RemoteTask<T> {
    outcome: oneshot::Receiver<T>,
    node: ThreadId,
    waiters: Arc<Waiters>,
}

/// Why a task of another thread has no outcome.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The endpoint was dropped, or too many jobs waited for the node's thread.
    #[error("the `Rpc` was dropped, or {MAX_JOBS} jobs wait for its thread already")]
    NotRun,
    /// A wait on the node's thread would never end.
    #[error("this is the node's thread, and waiting would stop it: await the calls in a task")]
    OnNodeThread,
    /// [`RemoteTask::wait_for`] ended before. The task goes on.
    #[error("no outcome in that time, and the task goes on: wait again, or drop it to cancel its calls")]
    TimedOut,
}

am_api::debug_as_display!(RemoteError);

impl<T> RemoteTask<T> {
    /// Wait for the outcome. Not on the node's thread.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn wait(mut self) -> Result<T, RemoteError> {
        self.wait_until(None)
    }

    /// Wait for the outcome, at most so long. The task can be waited for again.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn wait_for(&mut self, time: Duration) -> Result<T, RemoteError> {
        self.wait_until(Instant::now().checked_add(time))
    }

    fn wait_until(&mut self, until: Option<Instant>) -> Result<T, RemoteError> {
        if thread::current().id() == self.node {
            return Err(RemoteError::OnNodeThread);
        }
        let waiter = self.waiters.wait();
        let waker = Waker::from(waiter.clone());
        let outcome = loop {
            if let Poll::Ready(outcome) = Pin::new(&mut *self).poll(&mut PollContext::from_waker(&waker)) {
                break outcome;
            }
            if !waiter.park(until) {
                break Err(RemoteError::TimedOut);
            }
        };
        // The task may keep its waker.
        waiter.end();
        outcome
    }
}

impl<T> fmt::Debug for RemoteTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTask").finish_non_exhaustive()
    }
}

impl<T> Future for RemoteTask<T> {
    type Output = Result<T, RemoteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(context).map_err(|_| RemoteError::NotRun)
    }
}
