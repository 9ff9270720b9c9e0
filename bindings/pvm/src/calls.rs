//! The names that PVM's library calls, and that this library takes the place of.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, slice};

use am_c_runtime::{at_exit, call};
use libc::timeval;
use parking_lot::Mutex;

use crate::layout::{self, CONTROL, Pmsg};
use crate::library::{Handler, Library};
use crate::pvm_route::{NOW, Within, within};
use crate::route::SYSTEM_ERROR;
use crate::{agree, ending, environment, memory, process, route, watch};

/// What PVM gets if this library has a fault.
fn fault(said: &str) -> c_int {
    environment::say(&format!("pvm-am: a bug in this library: {said}"));
    SYSTEM_ERROR
}

/// Whether this process is a task, and its PVM library is known.
fn is_in_use(library: &Library) -> bool {
    static IS_KNOWN: OnceLock<bool> = OnceLock::new();
    if library.own_tid() <= 0 || am_api::is_forked_child() {
        return false;
    }
    *IS_KNOWN.get_or_init(|| {
        at_exit(finish);
        let checked = library.check();
        if let Err(why) = &checked {
            environment::say(&format!("pvm-am: {why}. The messages of this task take PVM's own routes."));
        }
        checked.is_ok()
    })
}

/// A forked child of a task calls PVM. Other tasks have the address of its parent's node, so what they send does not reach it.
fn warn_child() {
    static HAS_SAID: AtomicBool = AtomicBool::new(false);
    if am_api::is_forked_child() && process::is_open() && !HAS_SAID.swap(true, Ordering::Relaxed) {
        environment::say(
            "pvm-am: a forked child of a task calls PVM, and gets none of the task's active messages. Fork before the task's first message, \
             or run the program without the library.",
        );
    }
}

/// The process ends, and may not have left PVM.
fn finish() {
    process::close(route::FINISH);
    ending::finish();
}

/// Route a message and receive others: see `route.rs`.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mroute(mid: c_int, dtid: c_int, tag: c_int, tmout: *mut timeval) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    if !is_in_use(library) {
        warn_child();
        // SAFETY: the caller's promise.
        return unsafe { (library.route)(mid, dtid, tag, tmout) };
    }
    // SAFETY: the caller's promise: a time, or none.
    let time = unsafe { tmout.as_ref() };
    call(|| route::route(library, mid, dtid, tag, time), fault)
}

/// Put a message into PVM's list, or give it to its handler.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mesg_input(message: *mut c_void) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    let message: *mut Pmsg = message.cast();
    if !is_in_use(library) {
        // SAFETY: the caller's promise.
        return unsafe { (library.input)(message) };
    }
    call(|| route::input(library, message), fault)
}

/// Send a message to several tasks: as active messages to those that have agreed, by the daemon to the others.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvmmcast(mid: c_int, tids: *mut c_int, count: c_int, tag: c_int) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    let pass = |tids: *mut c_int, count| {
        // SAFETY: `count` numbers.
        unsafe { (library.multicast)(mid, tids, count, tag) }
    };
    if !is_in_use(library) {
        return pass(tids, count);
    }
    let multicast = || {
        // SAFETY: the caller's promise.
        let all: BTreeSet<c_int> = unsafe { slice::from_raw_parts(tids, usize::try_from(count).unwrap_or(0)) }
            .iter()
            .copied()
            .filter(|&to| to != library.own_tid())
            .collect();
        // SAFETY: a number, of a message or not.
        let message = unsafe { (library.message)(mid) };
        if !message.is_null() {
            // SAFETY: a message of PVM's.
            unsafe { (*message).context = library.own_context() };
        }
        let (mut rest, mut error) = (vec![], 0);
        for to in all {
            if layout::is_task(to) && tag >= 0 {
                if agree::is_switched(library, to) {
                    error = route::route(library, mid, to, tag, NOW).min(error);
                    continue;
                }
                if within() == Within::None && route::is_new(to) {
                    agree::offer(library, to);
                }
            }
            rest.push(to);
        }
        _ = process::with(|process| process.pairs.counts.passed += rest.len() as u64);
        let passed = if rest.is_empty() { 0 } else { pass(rest.as_mut_ptr(), rest.len() as c_int) };
        if error < 0 { error } else { passed }
    };
    call(multicast, fault)
}

/// The list that `pvm_getfds` returns.
static DESCRIPTORS: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// The descriptors that a program waits on: PVM's own, and one for the node.
///
/// # Safety
/// `fds` is a place for a pointer.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvm_getfds(fds: *mut *mut c_int) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    // SAFETY: the caller's promise.
    let count = unsafe { (library.descriptors)(fds) };
    if count <= 0 || !is_in_use(library) {
        return count;
    }
    let add = || {
        let Some(own) = route::watch(library) else { return count };
        let mut list = DESCRIPTORS.lock();
        // SAFETY: PVM's list has `count` numbers.
        *list = unsafe { slice::from_raw_parts(*fds, count as usize) }.to_vec();
        list.push(own);
        // SAFETY: the caller's promise. The list stays until the next call.
        unsafe { *fds = list.as_mut_ptr() };
        list.len() as c_int
    };
    call(add, fault)
}

/// Let PVM say when something happens: a new route, among others.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvm_notify(what: c_int, tag: c_int, count: c_int, tids: *mut c_int) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    let notify = || {
        // SAFETY: the caller's promise.
        let is_own = is_in_use(library) && unsafe { watch::notify(library, what, tag, count, tids) };
        // SAFETY: the caller's promise.
        if is_own { 0 } else { unsafe { (library.notify)(what, tag, count, tids) } }
    };
    call(notify, fault)
}

/// The task leaves PVM.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvmendtask() -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    if is_in_use(library) {
        call(route::end, |said| _ = fault(said));
    }
    // SAFETY: the caller's promise.
    unsafe { (library.end_task)() }
}

/// Memory for a fragment.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn da_new(len: c_int) -> *mut c_char {
    let Some(library) = Library::get() else { return ptr::null_mut() };
    let free = process::is_open().then(|| usize::try_from(len).ok().and_then(memory::take)).flatten();
    // SAFETY: the caller's promise.
    free.map_or_else(|| unsafe { (library.new_bytes)(len) }, <*mut u8>::cast)
}

/// A fragment gives up its memory.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn da_unref(bytes: *mut c_char) {
    let Some(library) = Library::get() else { return };
    // SAFETY: the caller's promise. A task with a node has the version of PVM that is known.
    unsafe {
        if !(process::is_open() && memory::keep(bytes.cast())) {
            (library.unref_bytes)(bytes);
        }
    }
}

/// Let a function of the program take messages of this kind.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvm_addmhf(src: c_int, tag: c_int, ctx: c_int, handler: Handler) -> c_int {
    let Some(library) = Library::get() else { return SYSTEM_ERROR };
    // PVM has some of its own.
    if ctx != CONTROL {
        route::note_handler();
    }
    // SAFETY: the caller's promise.
    unsafe { (library.add_handler)(src, tag, ctx, handler) }
}

/// Read an address. The one that PVM reads when a task begins is that of this host.
///
/// # Safety
/// As PVM calls it.
// SAFETY: its name is to take the place of PVM's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn hex_inadport(text: *mut c_char, address: *mut libc::sockaddr_in) {
    let Some(library) = Library::get() else { return };
    // SAFETY: the caller's promise.
    let host = unsafe {
        (library.read_address)(text, address);
        u32::from_be((*address).sin_addr.s_addr)
    };
    if within() == Within::None {
        environment::note_host(Ipv4Addr::from(host));
    }
}
