//! The text of the last failure on each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keep the text of a failure of this thread's call.
#[cold]
pub fn keep(text: String) {
    let text: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // On a thread that is just ending there is nobody left to ask for it.
    _ = LAST.try_with(|last| last.replace(text));
}

/// The text of the last failure on this thread; it stays where it is until the next.
pub fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
