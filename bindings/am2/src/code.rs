//! What calls return, and why messages come back.

use std::ffi::{CStr, c_int};

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

impl Code {
    const ALL: [Code; 6] = [Code::Ok, Code::NotInit, Code::BadArg, Code::Resource, Code::NotSent, Code::InUse];

    /// What the result of this number means, and what to do.
    pub(crate) fn text_of(number: c_int) -> &'static CStr {
        match Code::ALL.into_iter().find(|code| *code as c_int == number) {
            Some(Code::Ok) => c"done",
            Some(Code::NotInit) => c"AM_Init was not called, or AM_Terminate was; call AM_Init first",
            Some(Code::BadArg) => c"an argument is wrong, or this caller may not make this call (a handler, a forked child)",
            Some(Code::Resource) => {
                c"something is missing, full or not there, or a table's entry is taken; of AM_Init a line on standard error says what"
            }
            Some(Code::NotSent) => c"an asynchronous message could not leave at once; poll, and try again",
            Some(Code::InUse) => c"it is in use; free what uses it, or let the call return that does",
            None => c"no result of this library",
        }
    }
}

impl Status {
    const ALL: [Status; 10] = [
        Status::BadArgs,
        Status::BadEntry,
        Status::BadTag,
        Status::BadHandler,
        Status::BadSegmentOffset,
        Status::BadLength,
        Status::BadEndpoint,
        Status::Congestion,
        Status::Unreachable,
        Status::NoConnection,
    ];

    /// Why a message with the status of this number came back.
    pub(crate) fn text_of(number: c_int) -> &'static CStr {
        match Status::ALL.into_iter().find(|status| *status as c_int == number) {
            Some(Status::BadArgs) => c"its arguments are wrong",
            Some(Status::BadEntry) => c"the translation is not mapped",
            Some(Status::BadTag) => c"the endpoint has another tag",
            Some(Status::BadHandler) => c"the endpoint has no such handler",
            Some(Status::BadSegmentOffset) => c"the transfer begins beyond the segment",
            Some(Status::BadLength) => c"the transfer ends beyond the segment",
            Some(Status::BadEndpoint) => c"there is no such endpoint",
            Some(Status::Congestion) => c"too many requests wait for the endpoint's process; send it again later",
            Some(Status::Unreachable) => {
                c"the endpoint's process does not answer, or not any more; a handler may have had the message"
            }
            Some(Status::NoConnection) => {
                c"this process, or the peer, has no connection left; unmap translations that are not used"
            }
            None => c"no status of this library",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of `am.h`, and others. A text says something, and no two are alike.
    #[test]
    fn each_result_and_each_status_has_a_text() {
        let results: Vec<c_int> = (0..=5).collect();
        let statuses: Vec<c_int> = (1..=9).chain([11]).collect();
        let text_of_result: fn(c_int) -> &'static CStr = Code::text_of;
        for (text_of, numbers) in [(text_of_result, results), (Status::text_of, statuses)] {
            let mut texts: Vec<_> = numbers.iter().map(|number| text_of(*number)).collect();
            texts.sort_unstable();
            texts.dedup();
            assert!(texts.len() == numbers.len() && texts.iter().all(|text| !text.is_empty()), "{texts:?}");
            for other in (-9..99).filter(|number| !numbers.contains(number)) {
                assert!(!texts.contains(&text_of(other)), "{other}");
            }
        }
    }
}
