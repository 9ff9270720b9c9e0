//! The functions of `pvmam.h` for the process and its interfaces. Each checks its arguments and catches panics.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use am_c_runtime::last_error;

use crate::arguments::string;
use crate::code::{self, Code, Failure};
use crate::handle::{self, Handle};
use crate::header::HandlerFn;
use crate::ids::{self, Address};
use crate::interface::{Info, Interface};
use crate::{connect, current, registry};

/// Run a call that returns a number.
#[inline]
pub(crate) fn call(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    am_c_runtime::call(|| work().unwrap_or_else(code::keep), |said| code::keep(Failure::new(Code::Internal, said)))
}

/// Run a call that returns a pointer, null if it fails.
#[inline]
pub(crate) fn pointer<T>(work: impl FnOnce() -> Result<*mut T, Failure>) -> *mut T {
    let failed = |failure| {
        code::keep(failure);
        ptr::null_mut()
    };
    am_c_runtime::call(|| work().unwrap_or_else(failed), |said| failed(Failure::new(Code::Internal, said)))
}

/// # Errors
/// A handler runs on this thread, or the process is a forked child.
#[inline]
pub(crate) fn check_place() -> Result<(), Failure> {
    registry::check_not_child()?;
    current::check_outside()
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_global_init() -> c_int {
    call(|| {
        check_place()?;
        ids::initialize().map(|()| 0)
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_global_shutdown() -> c_int {
    call(|| {
        check_place()?;
        let open = handle::count_open();
        if open > 0 {
            return Err(Failure::new(Code::Open, format!("call am_shutdown for each interface first: {open} left")));
        }
        ids::free().map(|()| 0)
    })
}

/// See `pvmam.h`.
///
/// # Safety
/// `transport` is null or ends with 0; `info` is null or points to an `am_info`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_init(transport: *const c_char, info: *const Info) -> *mut c_void {
    pointer(|| {
        check_place()?;
        ids::check_initialized()?;
        // SAFETY: the caller's promise.
        let named = || unsafe { string(transport, "`transport`", "pass a name as `udp:10.0.0.7:7000`") };
        let transport = if transport.is_null() { None } else { Some(named()?) };
        // SAFETY: as above.
        let info = unsafe { info.as_ref() }.copied().unwrap_or_default();
        registry::add(Interface::open(transport, &info)?).map(Handle::pointer)
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_shutdown(interface: *mut c_void) -> c_int {
    call(|| {
        check_place()?;
        connect::shut_down(&*registry::find(Handle::of(interface))?).map(|()| 0)
    })
}

fn insert(address: Address) -> c_int {
    call(|| {
        registry::check_not_child()?;
        ids::insert(address)
    })
}

fn bind(address: Address, id: c_int) -> c_int {
    call(|| {
        registry::check_not_child()?;
        ids::bind(address, id).map(|()| 0)
    })
}

fn function(handler: Option<HandlerFn>) -> Address {
    handler.map_or(Address::Any(ptr::null()), Address::Handler)
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_address_to_id(address: *const c_void) -> c_int {
    insert(Address::Any(address))
}

/// See `pvmam.h`.
///
/// # Safety
/// `handler` may be called for each message that names its identifier.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_handler_to_id(handler: Option<HandlerFn>) -> c_int {
    insert(function(handler))
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_bind_address_with_id(address: *const c_void, id: c_int) -> c_int {
    bind(Address::Any(address), id)
}

/// See `pvmam.h`.
///
/// # Safety
/// As for [`am_handler_to_id`].
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_bind_handler_with_id(handler: Option<HandlerFn>, id: c_int) -> c_int {
    bind(function(handler), id)
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_id_to_address(id: c_int) -> *mut c_void {
    pointer(|| {
        registry::check_not_child()?;
        ids::find(id)
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_error() -> *const c_char {
    last_error()
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_error_code() -> c_int {
    code::last()
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_strerror(number: c_int) -> *const c_char {
    match (number, Code::of(number)) {
        (0.., _) => c"no error".as_ptr(),
        (_, Some(code)) => code.text().as_ptr(),
        (_, None) => c"no error of this library".as_ptr(),
    }
}
