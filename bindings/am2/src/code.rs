//! What calls return, and why messages come back.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::thread_end;

/// What each call returns, as in `am.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// No `AM_Init` before.
    NotInit = 1,
    /// A wrong argument.
    BadArg = 2,
    /// Something is missing, or full.
    Resource = 3,
    /// An asynchronous message was not sent.
    NotSent = 4,
    /// It is in use.
    InUse = 5,
}

/// Why a message came back, as in `am.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `EBADARGS`
    BadArgs = 1,
    /// `EBADENTRY`
    BadEntry = 2,
    /// `EBADTAG`
    BadTag = 3,
    /// `EBADHANDLER`
    BadHandler = 4,
    /// `EBADSEGOFF`
    BadSegmentOffset = 5,
    /// `EBADLENGTH`
    BadLength = 6,
    /// `EBADENDPOINT`
    BadEndpoint = 7,
    /// `ECONGESTION`
    Congestion = 8,
    /// `EUNREACHABLE`
    Unreachable = 9,
    /// `ENOCONNECTION`
    NoConnection = 11,
}

/// Run a call, and let no panic through.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Code>) -> c_int {
    thread_end::at_border(|| match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Code::Ok as c_int,
        Ok(Err(code)) => code as c_int,
        Err(panic) => {
            report(&*panic);
            Code::Resource as c_int
        }
    })
}

#[cold]
fn report(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    eprintln!("libam2: a bug of the library: {}", text.unwrap_or("a panic without words"));
}
