//! Sleeping: until one of the descriptors is readable, or a time is over.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::time::Duration;
use std::{io, ptr, thread};

use am_c_runtime::thread_end;
use libc::{nfds_t, pollfd, sigset_t, timespec};
use nix::sys::time::TimeSpec;

/// The kernel does not poll more descriptors than the process may open, and a program may forbid itself to open any. The sleep is this long
/// then, and the caller looks.
const WITHOUT_POLL: Duration = Duration::from_millis(1);

unsafe extern "C-unwind" {
    fn ppoll(on: *mut pollfd, count: nfds_t, time: *const timespec, mask: *const sigset_t) -> c_int;
}

/// Sleep until one of these is readable, the time is over, or a signal has arrived. Returns whether one is readable. Without a time it is
/// forever. The thread may be cancelled here.
pub(crate) fn sleep_on(descriptors: &[RawFd], time: Option<Duration>) -> bool {
    let mut on: Vec<pollfd> = descriptors.iter().map(|&fd| pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let nap = time.map_or(WITHOUT_POLL, |time| time.min(WITHOUT_POLL));
    let time = time.map(|time| *TimeSpec::from_duration(time).as_ref());
    let (place, count) = (on.as_mut_ptr(), on.len() as nfds_t);
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `count` descriptors; a time, or none; no mask.
    let found = thread_end::cancellable(move || unsafe { ppoll(place, count, time, ptr::null()) }).unwrap_or(0);
    let is_not_polled = found < 0 && is_not_polled(&io::Error::last_os_error());
    if is_not_polled {
        thread::sleep(nap);
    }
    found > 0 || is_not_polled
}

/// Whether `poll` has failed because the process may not have as many descriptors.
pub(crate) fn is_not_polled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}
