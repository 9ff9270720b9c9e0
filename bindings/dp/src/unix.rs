//! The UNIX calls of `dp.h`, and what the preload library asks.

use std::ffi::{c_int, c_long, c_void};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use am_c_runtime::thread_end;
use am_dp::Point;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::calls::{bytes, dp_fsync, write};
use crate::failure::{Failure, call};
use crate::pace::next_pause;
use crate::process;
use crate::signals::EndingSignals;

unsafe extern "C-unwind" {
    fn recv(socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> isize;
}

/// See `dp.h`.
///
/// # Safety
/// `buffer` has `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_unix_read(fd: c_int, buffer: *mut c_void, bytes: usize) -> c_long {
    call(-1, || {
        if buffer.is_null() || bytes > isize::MAX as usize {
            return Err(Failure::new(Errno::EFAULT, "the buffer is NULL, or its length senseless"));
        }
        // SAFETY: not null, not long, and the caller's promise.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
        loop {
            let read = process::with_point(fd, |process, point, _| {
                let read = process.dp.read_into(point, buffer);
                process.note_call(matches!(read, Ok(None)));
                Ok(read?)
            })?;
            if let Some(len) = read {
                return Ok(len.min(bytes) as c_long);
            }
            wait_readable(fd)?;
        }
    })
}

/// Sleep until the endpoint is readable; not with `O_NONBLOCK`. The kernel goes on after a signal whose handler has `SA_RESTART`, as it
/// does for a socket, because this reads from one.
fn wait_readable(fd: c_int) -> Result<(), Failure> {
    let received = thread_end::cancellable(move || {
        let mut byte = 0_u8;
        // SAFETY: there is a place for one byte. If the program closes the descriptor meanwhile, the kernel says so.
        match unsafe { recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) } {
            ..0 => Errno::last_raw(),
            // The node's end was closed.
            0 => libc::EBADF,
            1.. => 0,
        }
    });
    match Errno::from_raw(received.ok_or_else(Failure::cancelled)?) {
        Errno::UnknownErrno => Ok(()),
        Errno::EAGAIN => Err(Failure::new(Errno::EAGAIN, "there is no message now")),
        Errno::EBADF | Errno::ENOTSOCK => Err(Failure::not_a_point(fd)),
        error => Err(Failure::new(error, format!("the wait ended: {error}"))),
    }
}

fn is_nonblocking(end: BorrowedFd<'_>) -> bool {
    fcntl(end, FcntlArg::F_GETFL).is_ok_and(|flags| OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK))
}

/// See `dp.h`.
///
/// # Safety
/// As for [`dp_write`].
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_unix_write(fd: c_int, msg: *const c_void, len: usize) -> c_long {
    call(-1, || {
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(msg, len)? };
        let is_full = |sent: &Result<(), Failure>| sent.as_ref().is_err_and(|failure| failure.errno == Errno::EAGAIN);
        let (start, mut sent) = (Instant::now(), write(fd, message));
        // SAFETY: if the program closes it meanwhile, the kernel says so.
        if is_full(&sent) && !is_nonblocking(unsafe { BorrowedFd::borrow_raw(fd) }) {
            let signals = EndingSignals::hold();
            sent = write(fd, message);
            while is_full(&sent) {
                if signals.end_sleep(next_pause(start))? {
                    return Err(Failure::new(Errno::EINTR, "a signal ended the wait for room"));
                }
                sent = write(fd, message);
            }
        }
        sent.map(|()| len as c_long)
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_unix_fsync(fd: c_int) -> c_int {
    dp_fsync(fd, 1)
}

/// The program closes the descriptor itself.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_unix_close(fd: c_int) {
    call((), || {
        if process::is_in_owners_memory() {
            return Ok(());
        }
        if process::not_in_child().is_err() {
            process::forget_copy(fd);
        }
        process::with(fd, |process| {
            // Its descriptor is not closed here.
            process.forget(fd).into_iter().for_each(Point::forget);
            process.note_call(false);
            Ok(())
        })
    });
}

/// Whether a descriptor is an endpoint. The preload library also asks in a forked process, where calls on a copy fail.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_unix_is_point(fd: c_int) -> c_int {
    process::is_point_or_copy(fd).into()
}

/// Whether a descriptor is one of the library's own, which the preload library leaves open.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_unix_is_own(fd: c_int) -> c_int {
    process::is_own(fd).into()
}
