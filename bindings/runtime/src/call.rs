//! A call of the program: what panics in it stays in it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::thread_end::at_border;

/// Run a call of the program. Where it panics, `on_panic` makes its result of what the panic said.
#[inline]
pub fn call<T: Copy>(work: impl FnOnce() -> T, on_panic: impl FnOnce(&str) -> T) -> T {
    at_border(|| catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| on_panic(said(&*panic))))
}

#[cold]
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
