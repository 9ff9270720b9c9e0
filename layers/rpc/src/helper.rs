//! A thread that has the node while the program computes: "poll when idle, interrupt when busy" (Bal et al., 1997, §4.1).
//!
//! ```text
//!   the program                              the helper's thread, which has the node
//!   computes, and never polls                sleeps on the node's descriptors ◀── a call arrives: runs its method, answers
//!   task.wait(), while_waiting(..)           polls without a pause            ◀── the answer: the program goes on
//! ```

use std::fmt;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use am_api::Idle;
use am_base::{HelperPanicked, HelperThread, StartError};

use crate::remote::Remote;
use crate::rpc::Rpc;

/// The longest sleep.
const LONG: Duration = Duration::from_secs(3600);

/// A thread that opens a node, serves, and calls for the program, which computes meanwhile and never polls.
///
/// It sleeps while nothing arrives. While a thread of the program [waits for a call](crate::RemoteTask::wait), it polls without a pause, because
/// nobody else needs the core. On one core it yields between two polls.
///
/// Methods run on the helper's thread, so a service that the program uses too is behind an `Arc`, as in `StoreServer::shared(store)`. A method that
/// panics ends [its call](crate::CallError::Panicked) only.
///
/// ```
/// use std::error::Error;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use am_api::Node;
/// use am_rpc::{Helper, Rpc, service};
///
/// #[service]
/// trait Bound {
///     fn lower(&self, to: u64);
/// }
///
/// #[derive(Default)]
/// struct Best(AtomicU64);
///
/// impl Bound for Best {
///     fn lower(&self, to: u64) {
///         self.0.fetch_min(to, Relaxed);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let best = Arc::new(Best(AtomicU64::new(1000)));
/// let served = best.clone();
/// let helper = Helper::start("alpha-helper", move || {
///     let rpc = Rpc::open(&Node::open("alpha", "shm:helper-page")?)?;
///     rpc.serve(BoundServer::shared(served))?;
///     Ok::<_, Box<dyn Error + Send + Sync>>(rpc)
/// })?;
/// # let caller = Helper::start("beta", || Ok::<_, Box<dyn Error + Send + Sync>>(Rpc::open(&Node::open("beta", "shm:helper-page")?)?))?;
/// # let call = caller.remote().run(|local| {
/// #     let peer = local.peer("alpha").expect("a name");
/// #     async move { BoundClient::new(&peer).lower(7).await }
/// # });
/// // Computes, while others lower the bound.
/// while best.0.load(Relaxed) > 10 {
///     std::hint::black_box(1 + 1);
/// }
/// # call.wait()??;
/// helper.stop(std::time::Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// ```
pub struct Helper {
    remote: Remote,
    /// Returns how many calls were left.
    thread: HelperThread<usize>,
}

impl Helper {
    /// Start a thread of this name, which opens a node and what it serves. To keep it on one core, `open` calls [`am_api::pin`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<E: Send + 'static>(
        name: &str,
        open: impl FnOnce() -> Result<Rpc, E> + Send + 'static,
    ) -> Result<Helper, StartError<E>> {
        let open = || {
            open().map(|rpc| {
                let remote = rpc.remote();
                (rpc, remote)
            })
        };
        let (thread, remote) = HelperThread::start(name, open, serve)?;
        Ok(Helper { remote, thread })
    }

    /// For calls, from any thread.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Whether its thread runs. If it panicked, [`stop`](Helper::stop) says how.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Begin no more calls of others, let those that run have their results, at most for this time, and end the node. Calls of the program that
    /// are under way end with an error. Returns how many calls of others were left. Dropping the helper waits for no call.
    ///
    /// # Errors
    /// The thread had panicked.
    pub fn stop(mut self, timeout: Duration) -> Result<usize, HelperPanicked> {
        Ok(self.thread.stop(timeout, || self.remote.wake())?.unwrap_or(0))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The panic's message was printed when it happened.
        _ = self.thread.stop(Duration::ZERO, || self.remote.wake());
    }
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}

/// The helper's thread. Returns how many calls of others were left at its end.
fn serve(mut rpc: Rpc, end: &OnceLock<Duration>) -> usize {
    // A program that computes needs its core at once.
    rpc.endpoint().set_idle(Idle::sleeping());
    let (waiters, has_one_core) =
        (rpc.remote().waiters, thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));
    loop {
        if let Some(timeout) = end.get() {
            return rpc.shut_down(*timeout);
        }
        if !waiters.any() {
            rpc.wait(LONG);
        } else if rpc.poll() == 0 {
            if has_one_core { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}
