//! Calls of the program's handlers, each with as many arguments as its message has.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use am_c_runtime::thread_end;

/// A handler as it was set. Its true type follows from the messages that name it.
pub(crate) type HandlerFn = unsafe extern "C-unwind" fn();

/// The type of each argument.
macro_rules! argument {
    ($at:literal) => {
        i32
    };
}

macro_rules! invoke {
    ($run:expr, ($($fixed:expr => $of:ty),*), $arguments:expr) => {
        invoke!($run, ($($fixed => $of),*), $arguments, 0: ; 1: 0; 2: 0 1; 3: 0 1 2; 4: 0 1 2 3; 5: 0 1 2 3 4; 6: 0 1 2 3 4 5;
            7: 0 1 2 3 4 5 6; 8: 0 1 2 3 4 5 6 7; 9: 0 1 2 3 4 5 6 7 8; 10: 0 1 2 3 4 5 6 7 8 9; 11: 0 1 2 3 4 5 6 7 8 9 10;
            12: 0 1 2 3 4 5 6 7 8 9 10 11; 13: 0 1 2 3 4 5 6 7 8 9 10 11 12; 14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13;
            15: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; 16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($run:expr, $fixed:tt, $arguments:expr, $($count:literal: $($at:literal)*);*) => {
        match $arguments.len() {
            $($count => invoke!(@one $run, $fixed, $arguments, $($at)*),)*
            // A header has no more.
            _ => {}
        }
    };
    (@one $run:expr, ($($fixed:expr => $of:ty),*), $arguments:expr, $($at:literal)*) => {{
        // SAFETY: the caller's promise: the handler has this type.
        let run: unsafe extern "C-unwind" fn($($of,)* $(argument!($at)),*) = unsafe { transmute($run) };
        // SAFETY: the same, and its pointers are valid until it returns.
        thread_end::handler(move || unsafe { run($($fixed,)* $($arguments[$at]),*) });
    }};
}

/// Run the handler of a short message.
///
/// # Safety
/// `run` is a function of the token and these arguments.
pub(crate) unsafe fn short(run: HandlerFn, token: *mut c_void, arguments: &[i32]) {
    invoke!(run, (token => *mut c_void), arguments);
}

/// Run the handler of a message with bytes.
///
/// # Safety
/// `run` is a function of the token, the bytes, their number and these arguments.
pub(crate) unsafe fn bytes(run: HandlerFn, token: *mut c_void, at: *mut c_void, count: c_int, arguments: &[i32]) {
    invoke!(run, (token => *mut c_void, at => *mut c_void, count => c_int), arguments);
}

/// Run the handler of messages that came back.
///
/// # Safety
/// `run` is a function of a status, an operation and a block of arguments.
pub(crate) unsafe fn error(run: HandlerFn, status: c_int, operation: c_int, block: *mut c_void) {
    // SAFETY: the caller's promise.
    let run: unsafe extern "C-unwind" fn(c_int, c_int, *mut c_void) = unsafe { transmute(run) };
    // SAFETY: the caller's promise.
    thread_end::handler(move || unsafe { run(status, operation, block) });
}
