//! A thread that opens what it serves, for a program that computes meanwhile and never polls.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that serves until it is stopped. Dropping this does not stop it.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use am_base::HelperThread;
///
/// let open = || Ok::<_, Infallible>((vec![1, 2], "opened"));
/// let (mut helper, said) = HelperThread::start("counts", open, |numbers, end| {
///     while end.get().is_none() {
///         std::thread::yield_now();
///     }
///     numbers.len()
/// })?;
/// assert_eq!(said, "opened");
/// assert_eq!(helper.stop(Duration::ZERO, || ())?, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HelperThread<R> {
    end: Arc<OnceLock<Duration>>,
    thread: Option<JoinHandle<Option<R>>>,
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

/// The helper's thread panicked: in what opened its node, or in what the program gave it to run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the helper's thread panicked: {0}")]
pub struct HelperPanicked(pub String);

am_api::debug_as_display!(HelperPanicked);

impl<R: Send + 'static> HelperThread<R> {
    /// Start a thread of this name. It opens what it serves, and something for its starter, which is returned; then it serves until it is stopped:
    /// `serve` returns once its second argument has the time that the end may take.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<S, T: Send + 'static, E: Send + 'static>(
        name: &str,
        open: impl FnOnce() -> Result<(S, T), E> + Send + 'static,
        serve: impl FnOnce(S, &OnceLock<Duration>) -> R + Send + 'static,
    ) -> Result<(HelperThread<R>, T), StartError<E>> {
        if name.contains('\0') {
            return Err(StartError::Name);
        }
        let (opens, opened) = sync_channel(1);
        let end = Arc::<OnceLock<Duration>>::default();
        let of_thread = end.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let (served, failed) = match open() {
                Ok((served, given)) => (Some(served), Ok(given)),
                Err(error) => (None, Err(error)),
            };
            // The thread that starts this one waits.
            _ = opens.send(failed);
            served.map(|served| serve(served, &of_thread))
        });
        let thread = thread.map_err(StartError::NoThread)?;
        match opened.recv() {
            Ok(Ok(given)) => Ok((HelperThread { end, thread: Some(thread) }, given)),
            Ok(Err(error)) => Err(StartError::Open(error)),
            // It ends without a word only by a panic.
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| HelperPanicked(String::new())).into()),
        }
    }

    /// Whether it runs. If it panicked, [`stop`](HelperThread::stop) says how.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether the caller is on it.
    pub fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Say that it ends within this time, wake it, and wait for it. `None` if it was stopped before, or stops itself: then it ends once what it runs has
    /// returned.
    ///
    /// # Errors
    /// It had panicked.
    pub fn stop(&mut self, timeout: Duration, wake: impl FnOnce()) -> Result<Option<R>, HelperPanicked> {
        _ = self.end.set(timeout);
        wake();
        let is_current = self.is_current();
        self.thread.take().filter(|_| !is_current).map_or(Ok(None), joined)
    }
}

impl<R> fmt::Debug for HelperThread<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperThread").field("end", &self.end).finish_non_exhaustive()
    }
}

fn joined<R>(thread: JoinHandle<R>) -> Result<R, HelperPanicked> {
    thread.join().map_err(|panic| HelperPanicked(text(&*panic)))
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
