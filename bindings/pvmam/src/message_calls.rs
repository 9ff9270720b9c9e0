//! The functions of `pvmam.h` for messages. Each checks its arguments and catches panics.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_api::Connection;
use am_c_runtime::thread_end;

use crate::arguments::{Part, bytes, handler, milliseconds, tid, vector};
use crate::calls::{call, check_place};
use crate::code::Failure;
use crate::current;
use crate::handle::Handle;
use crate::header::{HandlerFn, Header};
use crate::interface::Interface;
use crate::registry;
use crate::send::{self, Data};

/// A wait checks this often whether its thread was cancelled, and whether the interface's descriptors are still there.
const SLICE: Duration = Duration::from_millis(100);

/// Where a request goes.
#[derive(Clone, Copy)]
enum To {
    Task(c_int),
    Endpoint(*mut c_void),
}

/// The interface, and the connection to the task there.
#[inline]
fn route(interface: *mut c_void, to: To) -> Result<(Rc<Interface>, Connection), Failure> {
    check_place()?;
    let interface = registry::find(Handle::of(interface))?;
    let tasks = interface.shared.tasks.borrow();
    let endpoint = match to {
        To::Task(task) => tasks.endpoint(tid(task)?)?,
        To::Endpoint(endpoint) => Handle::of(endpoint),
    };
    let connection = tasks.target(endpoint)?.connection;
    drop(tasks);
    Ok((interface, connection))
}

/// # Safety
/// `data` is null or has `length` bytes, which nothing writes until this returns.
#[inline]
unsafe fn request(interface: *mut c_void, to: To, id: c_int, data: *const c_void, length: usize) -> c_int {
    call(|| {
        let (interface, to) = route(interface, to)?;
        // SAFETY: the caller's promise.
        let data = Data::Bytes(unsafe { bytes(data, length)? });
        send::request(&interface, to, handler(id)?, &data).map(|()| 0)
    })
}

/// # Safety
/// `data` is null or has `count` parts. Each is null or has its bytes. Nothing writes them until this returns.
unsafe fn request_vdata(interface: *mut c_void, to: To, id: c_int, data: *const Part, count: usize) -> c_int {
    call(|| {
        let (interface, to) = route(interface, to)?;
        // SAFETY: the caller's promise.
        let data = Data::Vector(unsafe { vector(data, count)? });
        send::request(&interface, to, handler(id)?, &data).map(|()| 0)
    })
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `length` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_request(
    interface: *mut c_void,
    task: c_int,
    id: c_int,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { request(interface, To::Task(task), id, data, length) }
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `length` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_request_ep(
    interface: *mut c_void,
    endpoint: *mut c_void,
    id: c_int,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { request(interface, To::Endpoint(endpoint), id, data, length) }
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `count` parts. Each is null or has its bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_request_vdata(
    interface: *mut c_void,
    task: c_int,
    id: c_int,
    data: *const Part,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { request_vdata(interface, To::Task(task), id, data, count) }
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `count` parts. Each is null or has its bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_request_vdata_ep(
    interface: *mut c_void,
    endpoint: *mut c_void,
    id: c_int,
    data: *const Part,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { request_vdata(interface, To::Endpoint(endpoint), id, data, count) }
}

/// Reply with this data.
fn reply(interface: *mut c_void, header: *const Header, id: c_int, data: &current::Data<'_>) -> Result<c_int, Failure> {
    let interface = registry::find(Handle::of(interface))?;
    current::reply(interface.shared.handle, header, handler(id)?, &interface.words(), data).map(|()| 0)
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `length` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_reply(
    interface: *mut c_void,
    header: *const Header,
    id: c_int,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, length)? };
        reply(interface, header, id, &current::Data::Bytes(data))
    })
}

/// See `pvmam.h`.
///
/// # Safety
/// `data` is null or has `count` parts. Each is null or has its bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_reply_vdata(
    interface: *mut c_void,
    header: *const Header,
    id: c_int,
    data: *const Part,
    count: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { vector(data, count)? };
        reply(interface, header, id, &current::Data::Vector(&data))
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_poll(interface: *mut c_void) -> c_int {
    call(|| {
        check_place()?;
        let interface = registry::find(Handle::of(interface))?;
        let handled = interface.with_endpoint(|endpoint, state| endpoint.poll(state));
        if handled == 0 {
            registry::note_idle(&interface)?;
        }
        Ok(count(handled))
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_wait(interface: *mut c_void, timeout: c_int) -> c_int {
    call(|| {
        check_place()?;
        let interface = registry::find(Handle::of(interface))?;
        let (timeout, start) = (milliseconds(timeout)?, Instant::now());
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let handled = interface.with_endpoint(|endpoint, state| endpoint.wait(state, left.min(SLICE)));
            if handled == 0 {
                registry::close_if_lost(&interface)?;
            }
            if handled > 0 || left <= SLICE || thread_end::is_cancelled() {
                return Ok(count(handled));
            }
        }
    })
}

/// See `pvmam.h`.
///
/// # Safety
/// `run` may be called for each message that comes back, until another is set or the interface is shut down.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_set_returned(interface: *mut c_void, run: Option<HandlerFn>) -> c_int {
    call(|| {
        registry::find(Handle::of(interface))?.shared.returned.set(run);
        Ok(0)
    })
}

fn count(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}
