//! What a program passes: texts, bytes, vectors of bytes, numbers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::IoSlice;
use std::slice;
use std::time::Duration;

use am_api::HandlerId;

use crate::code::{Code, Failure};
use crate::ids::MAX_HANDLERS;

/// The longest message. It is the longest that a node can accept.
pub(crate) const LONGEST: usize = 1 << 30;

/// `struct iovec` of `sys/uio.h`: a part of vectorized data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its first byte. It may be null if there is none.
    pub base: *const c_void,
    /// The number of its bytes.
    pub length: usize,
}

/// # Safety
/// `text` is null, or a string that ends with 0 and outlives the returned one.
pub(crate) unsafe fn string<'a>(text: *const c_char, what: &str, hint: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is NULL: {hint}")));
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8: {hint}")))
}

#[cold]
fn too_long(length: usize) -> Failure {
    Failure::new(Code::TooLarge, format!("{length} bytes, and a message has at most {LONGEST}: send them in parts"))
}

/// # Safety
/// `data` is null or has `length` bytes, which nothing writes as long as the returned slice is used.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::argument(format!("`data` is NULL, and `length` is {length}")));
    }
    if length > LONGEST {
        return Err(too_long(length));
    }
    // SAFETY: not null, not longer than a slice may be, and the caller's promise.
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// # Safety
/// `data` is null or has `count` parts. Each is null or has its bytes, which nothing writes as long as the returned slices are used.
pub(crate) unsafe fn vector<'a>(data: *const Part, count: usize) -> Result<Vec<IoSlice<'a>>, Failure> {
    if count == 0 {
        return Ok(vec![]);
    }
    if data.is_null() {
        return Err(Failure::argument(format!("`data` is NULL, and `length` is {count}")));
    }
    // A part takes memory of its own, so there are fewer of them than bytes in the longest message.
    if count > LONGEST / size_of::<Part>() {
        return Err(Failure::argument(format!("`length` is {count}: of vectorized data it is the number of parts")));
    }
    // SAFETY: not null, not longer than a slice may be, and the caller's promise.
    let parts = unsafe { slice::from_raw_parts(data, count) };
    let total = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.length));
    if total > LONGEST {
        return Err(too_long(total));
    }
    let slice = |(at, part): (usize, &Part)| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(part.base, part.length) };
        let bytes = bytes.map_err(|_| Failure::argument(format!("`data[{at}]` is NULL and has {} bytes", part.length)));
        bytes.map(IoSlice::new)
    };
    parts.iter().enumerate().map(slice).collect()
}

/// # Errors
/// No message can name this handler.
#[inline]
pub(crate) fn handler(id: c_int) -> Result<HandlerId, Failure> {
    u8::try_from(id).map(HandlerId).map_err(|_| wrong_handler(id))
}

#[cold]
fn wrong_handler(id: c_int) -> Failure {
    let most = MAX_HANDLERS - 1;
    Failure::new(Code::Id, format!("{id} is no handler: messages name the identifiers 0 to {most} of am_address_to_id"))
}

/// # Errors
/// It is no time.
pub(crate) fn milliseconds(number: c_int) -> Result<Duration, Failure> {
    let wrong = |_| Failure::argument(format!("{number} ms: a time is not negative"));
    u64::try_from(number).map(Duration::from_millis).map_err(wrong)
}

/// # Errors
/// It is no task's number.
pub(crate) fn tid(number: c_int) -> Result<c_int, Failure> {
    if number > 0 {
        Ok(number)
    } else {
        Err(Failure::new(Code::Task, format!("{number} is no tid: a tid is positive")))
    }
}
