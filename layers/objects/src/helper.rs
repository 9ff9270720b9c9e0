//! A thread that has the space while the program computes: "poll when idle, interrupt when busy" (Bal et al., 1997, §4.1). `am-rpc` has the
//! same for calls.
//!
//! ```text
//!   the program                              the helper's thread, which has the space
//!   computes, and never polls                sleeps on the node's descriptors ◀── a write arrives: runs at the copy here
//!   jobs.write().push(7).wait()              polls without a pause            ◀── its own write: the program goes on
//! ```

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use am_api::{Idle, NodeWaker};

use crate::space::{NotLeft, Space};

/// The longest sleep.
const LONG: Duration = Duration::from_secs(3600);
/// The longest part of a wait in which the helper does not sleep: a guard may hold only in an hour.
const POLLS: Duration = Duration::from_millis(1);
/// The most jobs that wait for the helper.
const MOST_JOBS: usize = 1 << 10;

type Job = Box<dyn FnOnce(&mut Space) + Send>;

/// A thread that opens a space and serves it, while the program computes and never polls.
///
/// It sleeps while nothing arrives. Others' writes wake it, and run at the copies here; so this process is never silent, however long the program
/// computes. While a thread of the program [waits for a call](crate::Call::wait), the helper polls without a pause, for a millisecond at most.
///
/// ```
/// use std::error::Error;
///
/// use am_api::Node;
/// use am_objects::{Helper, Space, Wire, object};
///
/// #[derive(Default, Wire)]
/// struct Bound {
///     best: u64,
/// }
///
/// #[object]
/// impl Bound {
///     #[read]
///     fn best(&self) -> u64 {
///         self.best
///     }
///
///     #[write]
///     fn raise(&mut self, to: u64) {
///         self.best = self.best.max(to);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn Error>> {
/// let (helper, bound) = Helper::start("alpha-helper", || {
///     let mut space = Space::builder(&Node::open("alpha", "shm:objects-page")?).object::<Bound>().found("lab")?;
///     let bound = space.create("bound", &Bound::default())?;
///     Ok::<_, Box<dyn Error + Send + Sync>>((space, bound))
/// })?;
/// # let other = bound.clone();
/// # let other = std::thread::spawn(move || other.write().raise(7).wait());
/// // Computes, while others raise the bound.
/// while bound.read().best().wait()? < 7 {
///     std::hint::black_box(1 + 1);
/// }
/// bound.write().raise(8).wait()?;
/// # other.join().expect("it ends")?;
/// assert_eq!(helper.run(|space| space.view().members.len())?, 1);
/// # Ok(())
/// # }
/// ```
pub struct Helper {
    jobs: SyncSender<Job>,
    node: NodeWaker,
    end: Arc<OnceLock<Duration>>,
    thread: Option<JoinHandle<Result<(), NotLeft>>>,
}

/// Why a helper has not started.
#[derive(thiserror::Error)]
pub enum StartError<E> {
    /// What opens its space has failed.
    #[error("the helper did not start: {0}")]
    Open(E),
    /// The kernel ends a name at a NUL.
    #[error("the name of the helper's thread has a NUL: leave it out")]
    Name,
    /// The system has no thread left.
    #[error("no thread for the helper: {0}; `ulimit -u` says how many a user may have, and raises it")]
    NoThread(io::Error),
    /// What opens its space has panicked.
    #[error(transparent)]
    Panicked(#[from] HelperPanicked),
}

/// For `expect` and `unwrap`, whose reader wants the text.
impl<E: fmt::Display> fmt::Debug for StartError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a helper's space was not left.
#[derive(thiserror::Error)]
pub enum StopError {
    /// The others have not let this process go in time.
    #[error(transparent)]
    NotLeft(#[from] NotLeft),
    /// The thread had panicked.
    #[error(transparent)]
    Panicked(#[from] HelperPanicked),
}

am_api::debug_as_display!(StopError);

/// The helper's thread panicked: in what opened its space, or in what the program gave it to run. A panic of a write poisons its object only.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the helper's thread panicked: {0}")]
pub struct HelperPanicked(String);

am_api::debug_as_display!(HelperPanicked);

impl Helper {
    /// Start a thread of this name, which opens a space. Returns what `open` returns beside the space: its objects. To keep the thread on one core,
    /// `open` calls [`am_api::pin`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<T: Send + 'static, E: Send + 'static>(
        name: &str,
        open: impl FnOnce() -> Result<(Space, T), E> + Send + 'static,
    ) -> Result<(Helper, T), StartError<E>> {
        if name.contains('\0') {
            return Err(StartError::Name);
        }
        let (jobs, waiting) = sync_channel(MOST_JOBS);
        let (opens, opened) = sync_channel(1);
        let end = Arc::<OnceLock<Duration>>::default();
        let of_thread = end.clone();
        let builder = thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || match open() {
            Ok((space, objects)) => {
                // The thread that starts this one waits.
                _ = opens.send(Ok((space.waker().clone(), objects)));
                serve(space, &waiting, &of_thread)
            }
            Err(error) => {
                _ = opens.send(Err(error));
                Ok(())
            }
        });
        let thread = thread.map_err(StartError::NoThread)?;
        match opened.recv() {
            Ok(Ok((node, objects))) => Ok((Helper { jobs, node, end, thread: Some(thread) }, objects)),
            Ok(Err(error)) => Err(StartError::Open(error)),
            // It ends without a word only by a panic.
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| HelperPanicked(String::new())).into()),
        }
    }

    /// Run this on the helper's thread, and wait for it: what needs the space, such as [`create`](Space::create) or
    /// [`wait_until`](Space::wait_until).
    ///
    /// # Errors
    /// The thread has panicked.
    ///
    /// # Panics
    /// On the helper's thread, which would wait for itself.
    pub fn run<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Space) -> R + Send + 'static,
    ) -> Result<R, HelperPanicked> {
        let is_own = self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id());
        assert!(!is_own, "a helper does not wait for itself");
        let (gives, given) = sync_channel(1);
        // Without its thread the job is dropped, and with it what gives.
        _ = self.jobs.send(Box::new(move |space| _ = gives.send(what(space))));
        self.node.wake();
        given.recv().map_err(|_| HelperPanicked("in an earlier job, or in this one".to_owned()))
    }

    /// Whether its thread runs. If it panicked, [`stop`](Helper::stop) says how.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// [Leave](Space::leave) the space, and end the thread. Calls that have no result yet end with an error. Dropping the helper waits for nothing.
    ///
    /// # Errors
    /// See [`StopError`].
    pub fn stop(mut self, timeout: Duration) -> Result<(), StopError> {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> Result<(), StopError> {
        _ = self.end.set(timeout);
        self.node.wake();
        match self.thread.take() {
            // A job that drops its own helper: the thread ends once the job has returned.
            Some(own) if own.thread().id() == thread::current().id() => Ok(()),
            Some(thread) => Ok(joined(thread)??),
            None => Ok(()),
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

/// The helper's thread.
fn serve(mut space: Space, jobs: &Receiver<Job>, end: &OnceLock<Duration>) -> Result<(), NotLeft> {
    // A program that computes needs its core at once.
    space.set_idle(Idle::sleeping());
    let has_one_core = thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    let mut polls_since = None;
    loop {
        if let Some(timeout) = end.get() {
            return space.leave(*timeout);
        }
        jobs.try_iter().take(MOST_JOBS).for_each(|job| job(&mut space));
        if !space.is_waited_for() {
            polls_since = None;
        } else if polls_since.get_or_insert_with(Instant::now).elapsed() < POLLS {
            if space.poll() > 0 {
                polls_since = None;
            } else if has_one_core {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            continue;
        }
        // A waker that was used since the last sleep ends this one at once.
        space.turn(LONG);
    }
}

fn joined<T>(thread: JoinHandle<T>) -> Result<T, HelperPanicked> {
    thread.join().map_err(|panic| HelperPanicked(text(&*panic)))
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
