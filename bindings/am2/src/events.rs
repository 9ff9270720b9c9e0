//! The functions of `am.h` for handlers, polling, waiting and tokens.

use std::ffi::{c_int, c_uchar, c_void};
use std::thread;

use crate::am;
use crate::bundle::{CAN_SEND, NOT_EMPTY};
use crate::calls::{at_ep, put, resize};
use crate::code::{Code, guarded};
use crate::context::{self, with_token};
use crate::endpoint::MAX_HANDLERS;
use crate::header::{MAX_ARGUMENTS, MAX_LONG, MAX_MEDIUM};
use crate::invoke::HandlerFn;
use crate::name::Name;
use crate::progress;
use crate::tables::Handle;

/// The number of idle polls between two checks of the node's descriptors.
const POLLS_PER_LOOK: u32 = 256;

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SetHandler(ep: Handle, handler: c_uchar, run: Option<HandlerFn>) -> c_int {
    at_ep(ep, |_, ep| {
        let run = run.ok_or(Code::BadArg)?;
        *ep.handlers.borrow_mut().get_mut(usize::from(handler)).ok_or(Code::BadArg)? = Some(run);
        Ok(())
    })
}

/// See `am.h`.
///
/// # Safety
/// `handler` is null, or has room for an index.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_SetHandlerAny(ep: Handle, handler: *mut c_uchar, run: Option<HandlerFn>) -> c_int {
    at_ep(ep, |_, ep| {
        let run = run.filter(|_| !handler.is_null()).ok_or(Code::BadArg)?;
        let mut handlers = ep.handlers.borrow_mut();
        // The first is the error handler.
        let free = handlers.iter().skip(1).position(Option::is_none).ok_or(Code::Resource)? + 1;
        handlers[free] = Some(run);
        // SAFETY: the caller's promise.
        unsafe { put(handler, c_uchar::try_from(free).map_err(|_| Code::Resource)?) }
    })
}

/// See `am.h`.
///
/// # Safety
/// `count` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetNumHandlers(ep: Handle, count: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    at_ep(ep, |_, ep| unsafe { put(count, ep.handlers.borrow().len() as c_int) })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_SetNumHandlers(ep: Handle, count: c_int) -> c_int {
    at_ep(ep, |_, ep| resize(&mut ep.handlers.borrow_mut(), count, MAX_HANDLERS))
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_MaxNumHandlers() -> c_int {
    MAX_HANDLERS as c_int
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_MaxShort() -> c_int {
    MAX_ARGUMENTS as c_int
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_MaxMedium() -> c_int {
    MAX_MEDIUM as c_int
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_MaxLong() -> c_int {
    MAX_LONG as c_int
}

/// See `am.h`.
///
/// # Safety
/// `mask` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetEventMask(bundle: Handle, mask: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| am::with(|am| unsafe { put(mask, am.bundle(bundle)?.mask.get()) }))
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_SetEventMask(bundle: Handle, mask: c_int) -> c_int {
    guarded(|| {
        am::with(|am| {
            if mask & !(NOT_EMPTY | CAN_SEND) != 0 {
                return Err(Code::BadArg);
            }
            am.bundle(bundle)?.mask.set(mask);
            Ok(())
        })
    })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_WaitSema(bundle: Handle) -> c_int {
    guarded(|| progress::wait(bundle))
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_Poll(bundle: Handle) -> c_int {
    guarded(|| {
        let idle = am::with(|am| {
            let bundle = am.bundle(bundle)?;
            if context::is_in_handler() {
                return Err(Code::BadArg);
            }
            if progress::poll(am, &bundle) {
                return Ok(None);
            }
            Ok(Some(am.idle_polls.replace(am.idle_polls.get().wrapping_add(1))))
        })?;
        let Some(idle) = idle else { return Ok(()) };
        // Yield after an idle poll: programs poll in loops, and the peer may need this processor.
        thread::yield_now();
        if idle.is_multiple_of(POLLS_PER_LOOK) { am::hang_up_if_lost() } else { Ok(()) }
    })
}

/// See `am.h`.
///
/// # Safety
/// `name` is null, or has room for a name.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetSourceEndpoint(token: *mut c_void, name: *mut Name) -> c_int {
    guarded(|| {
        let source = with_token(token, |context| (context.source)()).ok_or(Code::BadArg)?;
        // SAFETY: the caller's promise.
        unsafe { put(name, source.ok_or(Code::Resource)?) }
    })
}

/// See `am.h`.
///
/// # Safety
/// `ep` is null, or has room for a handle.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetDestEndpoint(token: *mut c_void, ep: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(ep, with_token(token, |context| context.ep.handle).ok_or(Code::BadArg)?) })
}

/// See `am.h`.
///
/// # Safety
/// `index` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_GetSourceIndex(token: *mut c_void, index: *mut c_int) -> c_int {
    guarded(|| {
        let found = with_token(token, |context| (context.index)()).ok_or(Code::BadArg)?;
        // SAFETY: the caller's promise.
        unsafe { put(index, found.and_then(|found| c_int::try_from(found).ok()).ok_or(Code::Resource)?) }
    })
}

/// See `am.h`.
///
/// # Safety
/// `handler` is null, or has room for an index.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_GetMsgHandler(token: *mut c_void, handler: *mut c_uchar) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(handler, with_token(token, |context| context.handler).ok_or(Code::BadArg)?) })
}

/// See `am.h`.
///
/// # Safety
/// `kind` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_GetMsgKind(token: *mut c_void, kind: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(kind, with_token(token, |context| context.operation).ok_or(Code::BadArg)?) })
}

/// See `am.h`.
///
/// # Safety
/// `tag` is null, or has room for a tag.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetMsgTag(token: *mut c_void, tag: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(tag, with_token(token, |context| context.tag).ok_or(Code::BadArg)?) })
}
