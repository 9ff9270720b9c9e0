//! What calls return, and why messages come back.

use std::ffi::c_int;

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
    let code = am_c_runtime::call(
        || work().err().unwrap_or(Code::Ok),
        |said| {
            eprintln!("libam2: a bug of the library: {said}");
            Code::Resource
        },
    );
    code as c_int
}
