//! A call of the program: no panic leaves it, and the text of its failure is kept for its thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::thread_end::at_border;

/// Run a call of the program. If it panics, `on_panic` gets the panic's text and returns the result.
#[inline]
pub fn call<T: Copy>(work: impl FnOnce() -> T, on_panic: impl FnOnce(&str) -> T) -> T {
    at_border(|| catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| on_panic(said(&*panic))))
}

#[cold]
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

thread_local! {
    /// The text of the last failure on this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keep the text of a failure for [`last_error`].
#[cold]
pub fn keep_error(text: String) {
    let text: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // Fails only on a thread that is ending, which does not ask for the text.
    _ = LAST.try_with(|last| last.replace(text));
}

/// The text of the last failure on this thread. It is valid until the next failure.
pub fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
