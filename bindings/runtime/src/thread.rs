//! A thread of the library.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

/// Start a thread of this name. It gets no signals: those are for the program's own threads.
///
/// # Errors
/// The system has no thread left.
pub fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut before = SigSet::empty();
    _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before));
    let started = thread::Builder::new().name(name.into()).spawn(run);
    _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    started.map(drop)
}
