//! The functions behind the message calls of `am.h`, which has one inline function for each number of arguments.

use std::ffi::{c_int, c_uchar, c_void};

use am_api::ForeignMemory;

use crate::am;
use crate::code::{Code, guarded};
use crate::context::with_token;
use crate::endpoint::PendingGet;
use crate::header::{Extent, Header, Kind, MAX_LONG, MAX_MEDIUM};
use crate::reply::{self, Outgoing};
use crate::send;
use crate::tables::Handle;

/// # Safety
/// `at` is null, or points to `count` numbers, which outlive what is returned.
unsafe fn arguments<'a>(count: c_int, at: *const i32) -> Result<&'a [i32], Code> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: not null, and the caller's promise.
        Ok(count) if count <= crate::header::MAX_ARGUMENTS && !at.is_null() => unsafe {
            Ok(std::slice::from_raw_parts(at, count))
        },
        _ => Err(Code::BadArg),
    }
}

/// The number of bytes at this place, of which nothing is read.
fn length(at: *const c_void, count: c_int, max: usize) -> Result<usize, Code> {
    let length = usize::try_from(count).ok().filter(|count| *count <= max).ok_or(Code::BadArg)?;
    if length > 0 && at.is_null() { Err(Code::BadArg) } else { Ok(length) }
}

/// # Safety
/// `at` is null, or points to `count` bytes, which outlive what is returned.
unsafe fn data<'a>(at: *const c_void, count: c_int, max: usize) -> Result<&'a [u8], Code> {
    match length(at, count, max)? {
        0 => Ok(&[]),
        // SAFETY: not null, and the caller's promise.
        length => unsafe { Ok(std::slice::from_raw_parts(at.cast(), length)) },
    }
}

fn transfer(bytes: usize, base: usize) -> Result<Extent, Code> {
    let bytes = u32::try_from(bytes).map_err(|_| Code::BadArg)?;
    Ok(Extent { id: 0, bytes, base: base as u64 })
}

fn request(
    (ep, index): (Handle, c_int),
    (kind, handler): (Kind, c_uchar),
    arguments: &[i32],
    data: &[u8],
    base: Option<usize>,
    is_async: bool,
) -> Result<(), Code> {
    let index = usize::try_from(index).map_err(|_| Code::BadArg)?;
    let extent = base.map(|base| transfer(data.len(), base)).transpose()?;
    // The translation has the tag.
    let header = Header::new(kind, handler, 0, arguments, extent).ok_or(Code::BadArg)?;
    send::request(ep, index, Outgoing { header, data, is_reply: false }, is_async)
}

fn reply(
    token: *mut c_void,
    (kind, handler): (Kind, c_uchar),
    arguments: &[i32],
    data: &[u8],
    base: Option<usize>,
) -> Result<(), Code> {
    am::not_in_child()?;
    // Its handler runs under the lock, on this thread.
    let sent = with_token(token, |context| {
        // A reply was sent already, or the message is one.
        let to = context.reply.take().ok_or(Code::BadArg)?;
        let extent = base.map(|base| transfer(data.len(), base)).transpose()?;
        let header = Header::new(kind, handler, context.tag, arguments, extent).ok_or(Code::BadArg)?;
        reply::reply(context.common, context.ep, to, &Outgoing { header, data, is_reply: true });
        Ok(())
    });
    sent.ok_or(Code::BadArg)?
}

/// See `AM_RequestM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_Request(
    ep: Handle,
    index: c_int,
    handler: c_uchar,
    count: c_int,
    at: *const i32,
) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| request((ep, index), (Kind::Short, handler), unsafe { arguments(count, at)? }, &[], None, false))
}

/// See `AM_RequestIM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments, `source` has `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_RequestI(
    ep: Handle,
    index: c_int,
    handler: c_uchar,
    source: *const c_void,
    bytes: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (arguments, data) = unsafe { (arguments(count, at)?, data(source, bytes, MAX_MEDIUM)?) };
        request((ep, index), (Kind::Medium, handler), arguments, data, None, false)
    })
}

/// See `AM_RequestXferM` and `AM_RequestXferAsyncM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments, `source` has `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_RequestXfer(
    ep: Handle,
    index: c_int,
    offset: usize,
    handler: c_uchar,
    source: *const c_void,
    bytes: c_int,
    is_async: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (arguments, data) = unsafe { (arguments(count, at)?, data(source, bytes, MAX_LONG)?) };
        request((ep, index), (Kind::Transfer, handler), arguments, data, Some(offset), is_async != 0)
    })
}

/// See `AM_GetXferM` and `AM_GetXferAsyncM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments; `to` has `bytes` bytes until the handler has run.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_GetXfer(
    ep: Handle,
    index: c_int,
    offset: usize,
    handler: c_uchar,
    to: *mut c_void,
    bytes: c_int,
    is_async: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let arguments = unsafe { arguments(count, at)? };
        let bytes = length(to, bytes, MAX_LONG)?;
        get((ep, index), offset, handler, arguments, (to.cast(), bytes), is_async != 0)
    })
}

/// See `AM_GetXferM` and `AM_GetXferAsyncM` in `am.h`: to an offset in the endpoint's own segment.
///
/// # Safety
/// `at` has `count` arguments.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_GetXferSeg(
    ep: Handle,
    index: c_int,
    offset: usize,
    handler: c_uchar,
    to: usize,
    bytes: c_int,
    is_async: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let arguments = unsafe { arguments(count, at)? };
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_LONG).ok_or(Code::BadArg)?;
        let place = am::look_at(ep, |ep| ep.segment.borrow().part(to, bytes).ok_or(Code::BadArg))?;
        get((ep, index), offset, handler, arguments, (place.start(), bytes), is_async != 0)
    })
}

fn get(
    (ep, index): (Handle, c_int),
    offset: usize,
    handler: c_uchar,
    arguments: &[i32],
    (to, bytes): (*mut u8, usize),
    is_async: bool,
) -> Result<(), Code> {
    let index = usize::try_from(index).map_err(|_| Code::BadArg)?;
    let bytes = u32::try_from(bytes).map_err(|_| Code::BadArg)?;
    let (id, header) = am::look_at(ep, |ep| {
        ep.check_index(index)?;
        let id = ep.new_get();
        let extent = Extent { id, bytes, base: offset as u64 };
        let header = Header::new(Kind::Get, handler, 0, arguments, Some(extent)).ok_or(Code::BadArg)?;
        // SAFETY: the callers' promise: it is the get's until its handler has run, or it has come back.
        let memory = unsafe { ForeignMemory::new(to, bytes as usize) };
        ep.gets.borrow_mut().insert(id.into(), PendingGet { memory, header, index, connection: None });
        Ok((id, header))
    })?;
    let sent = send::request(ep, index, Outgoing { header, data: &[], is_reply: false }, is_async);
    sent.inspect_err(|_| {
        _ = am::look_at(ep, |ep| Ok(ep.gets.borrow_mut().remove(&id.into())));
    })
}

/// See `AM_ReplyM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_Reply(token: *mut c_void, handler: c_uchar, count: c_int, at: *const i32) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| reply(token, (Kind::Short, handler), unsafe { arguments(count, at)? }, &[], None))
}

/// See `AM_ReplyIM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments, `source` has `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_ReplyI(
    token: *mut c_void,
    handler: c_uchar,
    source: *const c_void,
    bytes: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (arguments, data) = unsafe { (arguments(count, at)?, data(source, bytes, MAX_MEDIUM)?) };
        reply(token, (Kind::Medium, handler), arguments, data, None)
    })
}

/// See `AM_ReplyXferM` in `am.h`.
///
/// # Safety
/// `at` has `count` arguments, `source` has `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_ReplyXfer(
    token: *mut c_void,
    offset: usize,
    handler: c_uchar,
    source: *const c_void,
    bytes: c_int,
    count: c_int,
    at: *const i32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (arguments, data) = unsafe { (arguments(count, at)?, data(source, bytes, MAX_LONG)?) };
        reply(token, (Kind::Transfer, handler), arguments, data, Some(offset))
    })
}
