//! A thread that has the node while the program computes: "poll when idle, interrupt when busy" (Bal et al., 1997, §4.1).
//!
//! ```text
//!   the program                              the helper's thread, which has the node
//!   computes, and never polls                sleeps on the node's descriptors ◀── a call arrives: runs its method, answers
//!   task.wait(), while_waiting(..)           polls without a pause            ◀── the answer: the program goes on
//! ```

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use am_api::Idle;

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
    end: Arc<OnceLock<Duration>>,
    /// Returns how many calls were left.
    thread: Option<JoinHandle<usize>>,
}

/// Why a helper has not started.
#[derive(thiserror::Error)]
pub enum StartError<E> {
    /// What opens its node has failed.
    #[error("the helper did not start: {0}")]
    Open(E),
    /// The kernel ends a name at a NUL.
    #[error("the name of the helper's thread has a NUL: leave it out")]
    Name,
    /// The system has no thread left.
    #[error("no thread for the helper: {0}; `ulimit -u` says how many a user may have, and raises it")]
    NoThread(io::Error),
    /// What opens its node has panicked.
    #[error(transparent)]
    Panicked(#[from] HelperPanicked),
}

/// For `expect` and `unwrap`, whose reader wants the text.
impl<E: fmt::Display> fmt::Debug for StartError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The helper's thread panicked: in what opened its node, or in what the program gave it to run. A panic of a method does not end the helper.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the helper's thread panicked: {0}")]
pub struct HelperPanicked(String);

am_api::debug_as_display!(HelperPanicked);

impl Helper {
    /// Start a thread of this name, which opens a node and what it serves. To keep it on one core, `open` calls [`am_api::pin`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<E: Send + 'static>(
        name: &str,
        open: impl FnOnce() -> Result<Rpc, E> + Send + 'static,
    ) -> Result<Helper, StartError<E>> {
        if name.contains('\0') {
            return Err(StartError::Name);
        }
        let end = Arc::<OnceLock<Duration>>::default();
        let (tells, told) = sync_channel(1);
        let of_thread = end.clone();
        let builder = thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || serve(open, &tells, &of_thread)).map_err(StartError::NoThread)?;
        match told.recv() {
            Ok(Ok(remote)) => Ok(Helper { remote, end, thread: Some(thread) }),
            Ok(Err(error)) => Err(StartError::Open(error)),
            // It ends without a word only by a panic.
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| HelperPanicked(String::new())).into()),
        }
    }

    /// For calls, from any thread.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Whether its thread runs. If it panicked, [`stop`](Helper::stop) says how.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Begin no more calls of others, let those that run have their results, at most for this time, and end the node. Calls of the program that
    /// are under way end with an error. Returns how many calls of others were left. Dropping the helper waits for no call.
    ///
    /// # Errors
    /// The thread had panicked.
    pub fn stop(mut self, timeout: Duration) -> Result<usize, HelperPanicked> {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> Result<usize, HelperPanicked> {
        _ = self.end.set(timeout);
        self.remote.wake();
        match self.thread.take() {
            // A method that drops its own helper: the thread ends once the method has returned.
            Some(own) if own.thread().id() == thread::current().id() => Ok(0),
            Some(thread) => joined(thread),
            None => Ok(0),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The panic's message was printed when it happened.
        _ = self.end(Duration::ZERO);
    }
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}

/// The helper's thread. Returns how many calls of others were left at its end.
fn serve<E>(
    open: impl FnOnce() -> Result<Rpc, E>,
    tells: &SyncSender<Result<Remote, E>>,
    end: &OnceLock<Duration>,
) -> usize {
    let mut rpc = match open() {
        Ok(rpc) => rpc,
        Err(error) => {
            // The thread that starts this one waits.
            _ = tells.send(Err(error));
            return 0;
        }
    };
    // A program that computes needs its core at once.
    rpc.endpoint().set_idle(Idle::sleeping());
    let (remote, has_one_core) = (rpc.remote(), thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));
    let waiters = remote.waiters.clone();
    _ = tells.send(Ok(remote));
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

fn joined(thread: JoinHandle<usize>) -> Result<usize, HelperPanicked> {
    thread.join().map_err(|panic| HelperPanicked(text(&*panic)))
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
