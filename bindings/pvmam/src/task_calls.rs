//! The functions of `pvmam.h` for tasks. Each checks its arguments and catches panics.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::arguments::{string, tid};
use crate::calls::{call, check_place, pointer};
use crate::code::{Code, Failure};
use crate::connect;
use crate::handle::Handle;
use crate::interface::Interface;
use crate::registry;
use crate::tasks::Target;

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_allocate_task(interface: *mut c_void) -> *mut c_void {
    pointer(|| {
        let interface = registry::find(Handle::of(interface))?;
        Ok(interface.shared.tasks.borrow_mut().allocate().pointer())
    })
}

/// # Safety
/// `name` is null or ends with 0.
unsafe fn meet(
    pointers: [*mut c_void; 2],
    name: *const c_char,
    how: impl FnOnce(&Interface, Handle, &str) -> Result<(), Failure>,
) -> c_int {
    call(|| {
        check_place()?;
        let interface = registry::find(Handle::of(pointers[0]))?;
        // SAFETY: the caller's promise.
        let name = unsafe { string(name, "`name`", "pass what am_task_address returns in the other task")? };
        how(&interface, Handle::of(pointers[1]), name).map(|()| 0)
    })
}

/// See `pvmam.h`.
///
/// # Safety
/// `name` is null or ends with 0.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_connect_task(
    interface: *mut c_void,
    endpoint: *mut c_void,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { meet([interface, endpoint], name, connect::connect) }
}

/// See `pvmam.h`.
///
/// # Safety
/// `name` is null or ends with 0.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn am_accept_task(
    interface: *mut c_void,
    endpoint: *mut c_void,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { meet([interface, endpoint], name, connect::accept) }
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_insert_task(interface: *mut c_void, endpoint: *mut c_void, task: c_int) -> c_int {
    call(|| {
        let interface = registry::find(Handle::of(interface))?;
        if tid(task)? == interface.tid {
            let text = format!("{task} is this task itself: call the handler's function instead");
            return Err(Failure::new(Code::Task, text));
        }
        interface.shared.tasks.borrow_mut().insert(Handle::of(endpoint), task).map(|()| 0)
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_remove_task(interface: *mut c_void, task: c_int) -> c_int {
    call(|| registry::find(Handle::of(interface))?.shared.tasks.borrow_mut().remove(tid(task)?).map(|()| 0))
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_deallocate_task(interface: *mut c_void, endpoint: *mut c_void) -> c_int {
    call(|| {
        check_place()?;
        connect::deallocate(&*registry::find(Handle::of(interface))?, Handle::of(endpoint)).map(|()| 0)
    })
}

/// A text of this task, or of another one.
fn text(
    handle: Handle,
    task: c_int,
    own: impl Fn(&Interface) -> &CString,
    of: impl Fn(&Target) -> &CString,
) -> *const c_char {
    let text = |text: &CString| text.as_ptr().cast_mut();
    pointer(|| {
        let interface = registry::find_either(handle)?;
        if tid(task)? == interface.tid {
            return Ok(text(own(&interface)));
        }
        let tasks = interface.shared.tasks.borrow();
        // The interface has it as long as it leads there.
        Ok(text(of(tasks.target(tasks.endpoint(task)?)?)))
    })
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_task_address(interface: *const c_void, task: c_int) -> *const c_char {
    text(Handle::of(interface), task, |interface| &interface.text, |target| &target.text)
}

/// See `pvmam.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn am_hostname(interface: *const c_void, task: c_int) -> *const c_char {
    text(Handle::of(interface), task, |interface| &interface.host, |target| &target.host)
}
