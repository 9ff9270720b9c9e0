//! A thread that has the space while the program computes: "poll when idle, interrupt when busy" (Bal et al., 1997, §4.1). `am-rpc` has the
//! same for calls.
//!
//! ```text
//!   the program                              the helper's thread, which has the space
//!   computes, and never polls                sleeps on the node's descriptors ◀── a write arrives: runs at the copy here
//!   jobs.write().push(7).wait()              polls without a pause            ◀── its own write: the program goes on
//! ```

use std::fmt;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Idle, NodeWaker};
use am_base::{HelperPanicked, HelperThread, StartError};

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
    thread: HelperThread<Result<(), NotLeft>>,
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
        let (jobs, waiting) = sync_channel(MOST_JOBS);
        let open = || {
            let (space, objects) = open()?;
            let node = space.waker().clone();
            Ok((space, (node, objects)))
        };
        let serves = move |space, end: &_| serve(space, &waiting, end);
        let (thread, (node, objects)) = HelperThread::start(name, open, serves)?;
        Ok((Helper { jobs, node, thread }, objects))
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
        assert!(!self.thread.is_current(), "a helper does not wait for itself");
        let (gives, given) = sync_channel(1);
        // Without its thread the job is dropped, and with it what gives.
        _ = self.jobs.send(Box::new(move |space| _ = gives.send(what(space))));
        self.node.wake();
        given.recv().map_err(|_| HelperPanicked("in an earlier job, or in this one".to_owned()))
    }

    /// Whether its thread runs. If it panicked, [`stop`](Helper::stop) says how.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// [Leave](Space::leave) the space, and end the thread. Calls that have no result yet end with an error. Dropping the helper waits for nothing.
    ///
    /// # Errors
    /// See [`StopError`].
    pub fn stop(mut self, timeout: Duration) -> Result<(), StopError> {
        Ok(self.thread.stop(timeout, || self.node.wake())?.unwrap_or(Ok(()))?)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The panic's message was printed when it happened.
        _ = self.thread.stop(Duration::ZERO, || self.node.wake());
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
