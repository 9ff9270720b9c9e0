//! PVM's own `mroute`, and whether the program is within it. It must not be called while the process is locked: it may call handlers of the
//! program, which send.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use am_c_runtime::thread_end;
use libc::timeval;
use parking_lot::Mutex;

use crate::layout::Pmsg;
use crate::library::Library;
use crate::pair::Loose;
use crate::progress::Away;

/// Without a wait.
pub(crate) const NOW: Option<&timeval> = Some(&timeval { tv_sec: 0, tv_usec: 0 });

/// A direct route is allowed, and not asked for.
pub(crate) const ALLOWED: c_int = 2;

/// A message of this library, for another one or the daemon.
pub(crate) struct OwnMessage {
    pub(crate) message: Loose,
    pub(crate) to: c_int,
    pub(crate) tag: c_int,
}

/// Those for which no task waits, while PVM's `mroute` runs. PVM has a queue for what is sent meanwhile, and ends the program if that
/// gets a hundred messages: as many as the offers of fifty tasks cause.
static WAITING: Mutex<VecDeque<OwnMessage>> = Mutex::new(VecDeque::new());

/// What is under way, when a handler of the program calls PVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// Nothing.
    None = 0,
    /// PVM's own `mroute`. It queues what it gets meanwhile.
    Route = 1,
    /// This library gives PVM a message.
    Delivery = 2,
}

static WITHIN: AtomicU8 = AtomicU8::new(Within::None as u8);

/// What is under way.
pub(crate) fn within() -> Within {
    match WITHIN.load(Ordering::Relaxed) {
        0 => Within::None,
        1 => Within::Route,
        _ => Within::Delivery,
    }
}

/// Run this as a part of that.
pub(crate) fn during<T>(what: Within, work: impl FnOnce() -> T) -> T {
    let before = WITHIN.swap(what as u8, Ordering::Relaxed);
    let done = work();
    WITHIN.store(before, Ordering::Relaxed);
    done
}

/// Call PVM's own `mroute`. `None` waits for a message.
pub(crate) fn route(library: &Library, mid: c_int, to: c_int, tag: c_int, time: Option<&timeval>) -> c_int {
    let is_inner = within() == Within::Route;
    let count = call(library, mid, to, tag, time);
    let more = if is_inner { 0 } else { send_waiting(library) };
    if count < 0 { count } else { count + more }
}

fn call(library: &Library, mid: c_int, to: c_int, tag: c_int, time: Option<&timeval>) -> c_int {
    let time = time.map_or(ptr::null_mut(), |time| ptr::from_ref(time).cast_mut());
    // It may wait for another task's answer, or a handler may compute.
    let _away = Away::begin();
    // SAFETY: PVM only reads the time.
    during(Within::Route, || as_handler(move || unsafe { (library.route)(mid, to, tag, time) }))
}

/// Put a message into PVM's list, or give it to its handler.
///
/// # Safety
/// A whole message, in no list.
pub(crate) unsafe fn input(library: &Library, message: *mut Pmsg) -> c_int {
    // SAFETY: the caller's promise.
    as_handler(move || unsafe { (library.input)(message) })
}

/// Run a function of PVM's that may run a handler of the program. If that ends the thread, the function counts as returned, with 0.
fn as_handler(work: impl Fn() -> c_int + Copy) -> c_int {
    let found = Cell::new(0);
    let place = &found;
    thread_end::handler(move || place.set(work()));
    found.get()
}

/// Send a message of this library, whatever the program thinks of direct routes. Returns how many messages have arrived meanwhile.
pub(crate) fn send_now(library: &Library, own: OwnMessage) -> c_int {
    let OwnMessage { message, to, tag } = own;
    let message = message.into_raw();
    // SAFETY: a message of this library's, in no list.
    let mid = unsafe { (*message).mid };
    // What it cannot send now, it sends later. Without the daemon the program's next call fails.
    let count = library.with_route_option(ALLOWED, || call(library, mid, to, tag, NOW)).max(0);
    // SAFETY: PVM has its own reference.
    unsafe { (library.free_message)(message) };
    count
}

/// Send a message of this library for which no task waits: now, or when PVM's `mroute` returns.
pub(crate) fn send_own(library: &Library, own: OwnMessage) {
    WAITING.lock().push_back(own);
    if within() != Within::Route {
        send_waiting(library);
    }
}

/// Send those that waited. Returns how many messages have arrived meanwhile.
fn send_waiting(library: &Library) -> c_int {
    let mut count = 0;
    loop {
        let next = WAITING.lock().pop_front();
        let Some(own) = next else { return count };
        count += send_now(library, own);
    }
}
