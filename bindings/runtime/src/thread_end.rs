//! A thread that the program cancels, or that calls `pthread_exit` in a handler, ends at the library's border.
//!
//! The C library ends a thread by unwinding its stack. Rust's frames do not support this: locks and borrows would stay, and the border, which
//! stops panics, would end the process.
//!
//! ```text
//!   the program calls        a cancel acts here, before anything is done
//!   ├─ inside                no cancel acts
//!   │  ├─ cancellable        a system call that waits: a cancel ends it, the library's frames return as after an error ──┐
//!   │  └─ handler            the program's handler: if it ends the thread, it counts as returned ───────────────────────┤
//!   └─ the border            the end of the thread goes on, with nothing of the library on the stack ◀──────────────────┘
//! ```

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

/// As in `pthread.h`, of glibc and musl.
const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;

// The end of a thread passes through these.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
    fn thread_end_catch(work: unsafe extern "C-unwind" fn(*mut c_void), data: *mut c_void) -> c_int;
    fn thread_end_go_on() -> !;
}

/// The state of this thread in the library.
#[derive(Clone, Copy)]
struct Inside {
    /// Calls under way: more than one while a handler calls the library.
    depth: u32,
    /// Whether the program lets cancels act, outside of the innermost call.
    state: c_int,
    /// The depth of the call at whose border the thread ends. 0 if it does not end.
    ends_at: u32,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { depth: 0, state: PTHREAD_CANCEL_DISABLE, ends_at: 0 }) };
}

/// Disable cancels. Returns the program's type and state.
///
/// The type comes first: in glibc (2.36) an asynchronous cancel that is on its way acts even after its state was disabled.
///
/// # Safety
/// The thread may end here.
#[inline]
unsafe fn forbid_cancels() -> (c_int, c_int) {
    let (mut kind, mut state) = (0, 0);
    // SAFETY: the caller's promise. There is a place for each answer.
    unsafe {
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &raw mut kind);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
    }
    (kind, state)
}

/// Run a call of the program. No panic may leave it, and its result must need no drop.
#[inline]
pub(crate) fn at_border<T: Copy>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the thread may end here: nothing of the library is on its stack.
    let (kind, state) = unsafe {
        pthread_testcancel();
        forbid_cancels()
    };
    let before = INSIDE.get();
    let depth = before.depth + 1;
    INSIDE.set(Inside { depth, state, ..before });
    let done = work();
    let is_ending = INSIDE.get().ends_at == depth;
    let ends_at = if is_ending { 0 } else { INSIDE.get().ends_at };
    INSIDE.set(Inside { ends_at, ..before });
    // SAFETY: as above. Only an end of the thread that began in this call continues here, so no Rust frame that owns anything is below.
    unsafe {
        pthread_setcancelstate(state, ptr::null_mut());
        if is_ending {
            thread_end_go_on();
        }
        if kind != PTHREAD_CANCEL_DEFERRED {
            pthread_setcanceltype(kind, ptr::null_mut());
        }
    }
    done
}

/// Calls the closure to which `data` points.
///
/// # Safety
/// `data` points to a valid `F`.
unsafe extern "C-unwind" fn run<F: Fn() + Copy>(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let work = unsafe { *data.cast::<F>() };
    work();
}

/// Run work that may end the thread. Returns whether it did: then the call has to return without waiting.
#[inline]
fn catch<F: Fn() + Copy>(mut work: F) -> bool {
    // SAFETY: `work` lives on, and is what `run` takes it for. The frames between hold nothing, since the closure is `Copy`.
    let is_ending = unsafe { thread_end_catch(run::<F>, (&raw mut work).cast()) } != 0;
    if is_ending {
        let inside = INSIDE.get();
        INSIDE.set(Inside { ends_at: inside.depth, ..inside });
    }
    is_ending
}

/// Dropped where a C++ exception leaves a handler. Locks and borrows of the library's frames would stay as they are, so the program ends.
struct Escape;

impl Drop for Escape {
    #[cold]
    fn drop(&mut self) {
        eprintln!("active messages: a C++ exception has left a handler; catch it there. The program ends.");
        std::process::abort();
    }
}

/// Run a handler of the program. If it ends the thread, the library treats it as returned.
#[inline]
pub fn handler<F: Fn() + Copy>(handler: F) {
    let escape = Escape;
    catch(move || {
        handler();
        // SAFETY: the thread may end here, which `catch` expects. The handler may have left it otherwise, and no cancel acts inside of the
        // library.
        unsafe { forbid_cancels() };
    });
    std::mem::forget(escape);
}

/// Run a system call that may wait, and that a cancel may end. `None` if the thread ends.
pub fn cancellable<F: Fn() -> c_int + Copy>(wait: F) -> Option<c_int> {
    let inside = INSIDE.get();
    if inside.ends_at != 0 {
        return None;
    }
    let done = Cell::new(0);
    let place = &done;
    let is_ending = catch(move || {
        // SAFETY: the thread may end here, which `catch` expects; it has the program's state as long as the call takes.
        unsafe { pthread_setcancelstate(inside.state, ptr::null_mut()) };
        place.set(wait());
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, ptr::null_mut()) };
    });
    if is_ending {
        // SAFETY: inside of the library no cancel acts.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, ptr::null_mut()) };
        return None;
    }
    Some(done.get())
}

/// Whether this thread ends: what it is in has to return, and not to wait any more.
pub fn is_ending() -> bool {
    INSIDE.get().ends_at != 0
}

/// Let a cancel that is due act. Returns whether the thread ends.
pub fn is_cancelled() -> bool {
    // SAFETY: the thread may end here, as `cancellable` expects.
    let test = || unsafe { pthread_testcancel() };
    cancellable(move || {
        test();
        0
    })
    .is_none()
}
