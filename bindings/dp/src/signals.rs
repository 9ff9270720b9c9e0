//! A wait in many sleeps that a signal ends, as it ends one call of the kernel's.
//!
//! A handler that runs between two sleeps ends neither. So the signals whose handlers end calls are held back between the sleeps, and
//! let through in them. Those with `SA_RESTART` run between the sleeps, and end none.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use am_c_runtime::thread_end;
use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;

use crate::failure::Failure;

// A cancel passes through it.
unsafe extern "C-unwind" {
    fn ppoll(on: *mut pollfd, count: nfds_t, time: *const timespec, mask: *const sigset_t) -> c_int;
}

/// What a fault of the program's raises: a handler may repair it, and held back it ends the process.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The signals that end calls are held back, as long as this lives.
pub(crate) struct EndingSignals {
    /// The thread's mask before.
    before: sigset_t,
    /// The mask while it sleeps.
    asleep: sigset_t,
}

fn empty() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call writes all of it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// The flags of this signal's handler; `None` where there is no handler.
fn handler(signal: c_int) -> Option<c_int> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: it only asks, and there is a place for the answer. A number that is no signal of the program's is an error.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has written it.
    let action = unsafe { action.assume_init() };
    (!matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)).then_some(action.sa_flags)
}

impl EndingSignals {
    /// Hold them back from now on.
    pub(crate) fn hold() -> EndingSignals {
        let (mut ending, mut going_on, mut before) = (empty(), vec![], empty());
        for signal in (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal)) {
            match handler(signal) {
                Some(flags) if flags & libc::SA_RESTART != 0 => going_on.push(signal),
                // SAFETY: a signal, and a set.
                Some(_) => _ = unsafe { libc::sigaddset(&raw mut ending, signal) },
                None => (),
            }
        }
        // SAFETY: both are sets.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ending, &raw mut before) };
        let mut asleep = before;
        // SAFETY: as above.
        going_on.iter().for_each(|signal| _ = unsafe { libc::sigaddset(&raw mut asleep, *signal) });
        EndingSignals { before, asleep }
    }

    /// Sleep for this time. Returns whether one of their handlers has run, now or since the last sleep.
    ///
    /// # Errors
    /// The thread was cancelled.
    pub(crate) fn end_sleep(&self, time: Duration) -> Result<bool, Failure> {
        let (time, asleep) = (*TimeSpec::from_duration(time).as_ref(), &self.asleep);
        let slept = thread_end::cancellable(move || {
            // SAFETY: no descriptors, a time and a mask.
            match unsafe { ppoll(ptr::null_mut(), 0, &raw const time, asleep) } {
                ..0 => Errno::last_raw(),
                0.. => 0,
            }
        });
        Ok(slept.ok_or_else(Failure::cancelled)? == libc::EINTR)
    }
}

impl Drop for EndingSignals {
    fn drop(&mut self) {
        // SAFETY: the thread's mask as it was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}
