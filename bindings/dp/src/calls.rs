//! The functions of `dp.h`. Each looks at its arguments, and lets no panic through.

use std::ffi::{c_char, c_int, c_void};
use std::task::Poll;
use std::time::{Duration, Instant};

use am_c_runtime::last_error;
use am_dp::{Dpid, Nid, WriteError};
use nix::errno::Errno;
use parking_lot::Mutex;

use crate::environment;
use crate::failure::{Failure, call};
use crate::pace::pause_call;
use crate::process::{self, Process};
use crate::start;

/// How long `dp_connect` waits for the other end, and `dp_close` for what was written.
const CONNECT: Duration = Duration::from_secs(10);
const CLOSE: Duration = Duration::from_secs(5);

/// `dpmmap_t` of `dp.h`.
#[repr(C)]
#[derive(Debug)]
pub struct Dpmmap {
    /// The pool's first byte.
    pub address: *const c_char,
    /// Its length.
    pub size: usize,
}

/// `dp_traffic_t` of `dp.h`.
#[repr(C)]
#[derive(Debug)]
pub struct Traffic {
    /// Messages written.
    pub written: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Writes without room.
    pub stalls: u64,
    /// Messages received.
    pub received: u64,
}

pub(crate) fn number(of: c_int, what: &str) -> Result<u32, Failure> {
    u32::try_from(of).map_err(|_| Failure::new(Errno::EINVAL, format!("{of} is no {what}: they count from 0")))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_open(dpid: c_int) -> c_int {
    call(-1, || open_point(dpid, environment::pool_size()?))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_open_pool(dpid: c_int, bytes: usize) -> c_int {
    call(-1, || open_point(dpid, bytes))
}

fn open_point(dpid: c_int, bytes: usize) -> Result<c_int, Failure> {
    let (dpid, start) = (Dpid(number(dpid, "DPID")?), Instant::now());
    process::abandon_if_closed()?;
    loop {
        let opened = start::open(|process| match process.open_point(dpid, bytes) {
            // Its descriptor is closed, and its last messages are not accepted yet.
            Err(failure) if failure.errno == Errno::EADDRINUSE && process.dp.is_closing(dpid) => Ok(None),
            opened => opened.map(Some),
        });
        match opened? {
            Some(fd) => return Ok(fd),
            None => pause_call(start)?,
        }
    }
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_connect(fd: c_int, nid: c_int, dpid: c_int) -> c_int {
    call(-1, || {
        let (nid, dpid) = (Nid(number(nid, "NID")?), Dpid(number(dpid, "DPID")?));
        let mut attempt = process::with_point(fd, |process, point, _| Ok(process.dp.begin_connect(point, nid, dpid)))?;
        let start = Instant::now();
        loop {
            let step = process::with(fd, |process| {
                let before = process.edge(fd);
                let step = process.dp.connect_step(&mut attempt);
                if before.is_some_and(|before| step.is_ready() && process.edge(fd) != Some(before)) {
                    process.note_redirect(fd);
                }
                process.dp.poll();
                process.note_call(false);
                Ok(step)
            })?;
            match step {
                Poll::Ready(result) => return Ok(result.map(|()| 0)?),
                Poll::Pending if start.elapsed() < CONNECT && pause_call(start).is_ok() => (),
                Poll::Pending => return process::with(fd, |process| Err(process.dp.give_up(attempt).into())),
            }
        }
    })
}

/// # Safety
/// `msg` is null or has `len` bytes, which nobody writes meanwhile.
#[inline]
pub(crate) unsafe fn bytes<'a>(msg: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if msg.is_null() || len > isize::MAX as usize {
        return Err(Failure::new(Errno::EINVAL, "the message is NULL, or its length senseless"));
    }
    // SAFETY: not null, not long, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(msg.cast::<u8>(), len) })
}

#[inline]
pub(crate) fn write(fd: c_int, message: &[u8]) -> Result<(), Failure> {
    process::with_point(fd, |process, point, _| {
        let sent = process.dp.write(point, message);
        process.note_call(sent == Err(WriteError::Full));
        Ok(sent?)
    })
}

/// See `dp.h`.
///
/// # Safety
/// `msg` is null or has `len` bytes, which nobody writes until this returns.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_write(fd: c_int, msg: *const c_void, len: c_int) -> c_int {
    call(-1, || {
        let length = usize::try_from(len).map_err(|_| Failure::new(Errno::EINVAL, "a length is not negative"))?;
        // SAFETY: the caller's promise.
        write(fd, unsafe { bytes(msg, length)? })?;
        Ok(len)
    })
}

/// See `dp.h`.
///
/// # Safety
/// `address` is null, or a place for a pointer.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_read(fd: c_int, address: *mut *mut c_char) -> c_int {
    call(-1, || {
        if address.is_null() {
            return Err(Failure::new(Errno::EINVAL, "`address` is NULL"));
        }
        process::with_point(fd, |process, point, pool| {
            let place = process.dp.read(point);
            process.note_call(matches!(place, Ok(None)));
            let Some(place) = place? else { return Ok(0) };
            // SAFETY: not null, and the caller's promise. The place is in the pool.
            unsafe { *address = pool.add(place.start()).cast_mut().cast() };
            Ok(c_int::try_from(place.len()).unwrap_or(c_int::MAX))
        })
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_fsync(fd: c_int, n: c_int) -> c_int {
    call(-1, || {
        let count =
            usize::try_from(n).map_err(|_| Failure::new(Errno::EINVAL, "a number of messages is not negative"))?;
        process::with_point(fd, |process, point, _| match process.dp.fsync(point, count) {
            true => Ok(0),
            false => Err(Failure::new(Errno::EINVAL, format!("fewer than {n} messages were read and not given back"))),
        })
    })
}

/// See `dp.h`.
///
/// # Safety
/// `tbp` is null, or a place for what is returned.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_mmap(fd: c_int, tbp: *mut Dpmmap) -> c_int {
    call(-1, || {
        if tbp.is_null() {
            return Err(Failure::new(Errno::EINVAL, "`tbp` is NULL"));
        }
        let pool = process::with(fd, |process| process.pool(fd).ok_or_else(|| Failure::not_a_point(fd)))?;
        // SAFETY: not null, and the caller's promise.
        unsafe { *tbp = Dpmmap { address: pool.0.cast(), size: pool.1 } };
        Ok(0)
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_close(fd: c_int) -> c_int {
    call(-1, || {
        let start = Instant::now();
        process::notice_closed(fd)?;
        while !process::with_point(fd, |process, point, _| {
            process.dp.poll();
            Ok(process.dp.is_accepted(point))
        })? && start.elapsed() < CLOSE
        {
            pause_call(start)?;
        }
        process::with(fd, |process| {
            let point = process.forget(fd).ok_or_else(|| Failure::not_a_point(fd))?;
            // Its drop closes the descriptor.
            process.dp.close(point);
            process.note_call(false);
            Ok(0)
        })
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_is_point(fd: c_int) -> c_int {
    call(0, || {
        // The program may have closed the endpoint, and given its number to something else.
        _ = process::notice_closed(fd);
        Ok(process::is_point(fd).into())
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_nid() -> c_int {
    call(-1, || start::open(|process| Ok(process.dp.nodes().own().0 as c_int)))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_nodes() -> c_int {
    call(-1, || start::open(|process| Ok(process.dp.nodes().count().map_or(-1, |count| count as c_int))))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_barrier() -> c_int {
    call(-1, || barrier().map(|()| 0))
}

/// Wait for the other processes of a launcher's job.
pub(crate) fn barrier() -> Result<(), Failure> {
    /// Each call is a barrier of its own, also where threads call at once.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    process::not_in_child()?;
    let _turn = ONE_AT_A_TIME.lock();
    let place = start::open(|process| Ok(process.place.take()))?;
    // Without the lock: the other thread works meanwhile.
    let Some(mut place) = place else { return Ok(()) };
    let result = place.barrier();
    start::open(|process| {
        process.place = Some(place);
        Ok(())
    })?;
    result.map_err(|error| Failure::new(Errno::EIO, error))
}

/// See `dp.h`.
///
/// # Safety
/// `traffic` is null, or a place for what is returned.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dp_traffic(fd: c_int, traffic: *mut Traffic) -> c_int {
    call(-1, || {
        if traffic.is_null() {
            return Err(Failure::new(Errno::EINVAL, "`traffic` is NULL"));
        }
        let done = process::with_point(fd, |process: &mut Process, point, _| {
            process.dp.traffic(point).ok_or_else(|| Failure::not_a_point(fd))
        })?;
        let am_dp::Traffic { written, bytes_written, stalls, received } = done;
        // SAFETY: not null, and the caller's promise.
        unsafe { *traffic = Traffic { written, bytes_written, stalls, received } };
        Ok(0)
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_error() -> *const c_char {
    last_error()
}
