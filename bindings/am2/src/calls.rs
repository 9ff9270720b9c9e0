//! The functions of `am.h` that send nothing: process, bundles, endpoints, tables, events, tokens. Each looks at its arguments.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::rc::Rc;

use am_api::ForeignMemory;

use crate::am::{self, Am};
use crate::bundle::Bundle;
use crate::code::{Code, Status, guarded};
use crate::context;
use crate::endpoint::{Ep, MAX_TRANSLATIONS, Tag, Translation};
use crate::leave;
use crate::name::Name;
use crate::process;
use crate::tables::Handle;

/// # Safety
/// `to` is null, or has room for a value.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::BadArg);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// A call that changes an endpoint's tables.
pub(crate) fn at_ep(ep: Handle, work: impl FnOnce(&Rc<Am>, &Rc<Ep>) -> Result<(), Code>) -> c_int {
    guarded(|| am::with_ep(ep, work))
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_Init() -> c_int {
    guarded(process::init)
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_ErrorText(result: c_int) -> *const c_char {
    Code::text_of(result).as_ptr()
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_StatusText(status: c_int) -> *const c_char {
    Status::text_of(status).as_ptr()
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_Terminate() -> c_int {
    guarded(process::terminate)
}

/// See `am.h`.
///
/// # Safety
/// `bundle` is null, or has room for a handle.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_AllocateBundle(access: c_int, bundle: *mut Handle) -> c_int {
    guarded(|| {
        am::with(|am| {
            if !(0..=1).contains(&access) || bundle.is_null() {
                return Err(Code::BadArg);
            }
            let handle = am.bundles.borrow_mut().add(|handle| Rc::new(Bundle::new(handle))).ok_or(Code::Resource)?;
            // SAFETY: the caller's promise.
            unsafe { put(bundle, handle) }
        })
    })
}

fn allocate(bundle: Handle, to: (*mut Handle, *mut Name), port: Option<u32>) -> Result<(), Code> {
    am::with(|am| {
        let bundle = am.bundle(bundle)?;
        if to.0.is_null() || to.1.is_null() {
            return Err(Code::BadArg);
        }
        let ep = process::add_endpoint(am, &bundle, port)?;
        // SAFETY: the callers' promise.
        unsafe { put(to.0, ep.handle).and_then(|()| put(to.1, ep.name)) }
    })
}

/// See `am.h`.
///
/// # Safety
/// The pointers are null, or have room for a handle and a name.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_AllocateEndpoint(bundle: Handle, ep: *mut Handle, name: *mut Name) -> c_int {
    guarded(|| allocate(bundle, (ep, name), None))
}

/// See `am.h`.
///
/// # Safety
/// As for [`AM_AllocateEndpoint`].
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_AllocateKnownEndpoint(
    bundle: Handle,
    ep: *mut Handle,
    name: *mut Name,
    port: c_uint,
) -> c_int {
    guarded(|| allocate(bundle, (ep, name), Some(port)))
}

/// See `am.h`.
///
/// # Safety
/// `name` is null, or has room for a name; the texts are null, or end with 0.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_KnownName(
    name: *mut Name,
    node: *const c_char,
    address: *const c_char,
    port: c_uint,
) -> c_int {
    guarded(|| {
        let text = |text: *const c_char| {
            if text.is_null() {
                return Err(Code::BadArg);
            }
            // SAFETY: not null, and the caller's promise.
            unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Code::BadArg)
        };
        let known = Name::new(text(node)?, &format!("port{port}"), text(address)?).ok_or(Code::BadArg)?;
        known.parts().ok_or(Code::BadArg)?;
        // SAFETY: the caller's promise.
        unsafe { put(name, known) }
    })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_FreeEndpoint(ep: Handle) -> c_int {
    at_ep(ep, |am, found| {
        if found.endpoint.try_borrow_mut().is_err() || context::is_in_handler() {
            return Err(Code::InUse);
        }
        leave::free(am, found);
        Ok(())
    })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_FreeBundle(bundle: Handle) -> c_int {
    guarded(|| {
        am::with(|am| {
            let found = am.bundle(bundle)?;
            if context::is_in_handler() {
                return Err(Code::InUse);
            }
            found.endpoints().iter().for_each(|ep| leave::free(am, ep));
            am.bundles.borrow_mut().remove(bundle);
            Ok(())
        })
    })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_MoveEndpoint(ep: Handle, from: Handle, to: Handle) -> c_int {
    at_ep(ep, |am, ep| {
        let (from, to) = (am.bundle(from)?, am.bundle(to)?);
        if ep.bundle.get() != from.handle {
            return Err(Code::BadArg);
        }
        from.remove(ep.handle);
        to.add(ep);
        Ok(())
    })
}

fn index_of(ep: &Ep, index: c_int) -> Result<usize, Code> {
    let index = usize::try_from(index).map_err(|_| Code::BadArg)?;
    ep.check_index(index).map(|()| index)
}

fn map(am: &Am, ep: &Ep, index: usize, name: Name, tag: u64) -> Result<(), Code> {
    let [node, ..] = name.parts().ok_or(Code::BadArg)?;
    let is_own = node == am.node.name();
    let entry = &mut ep.translations.borrow_mut()[index];
    if entry.is_some() {
        return Err(Code::Resource);
    }
    *entry = Some(Translation { name, tag, is_own, connection: None, is_greeted: false, reserved: 0 });
    Ok(())
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_Map(ep: Handle, index: c_int, name: Name, tag: u64) -> c_int {
    at_ep(ep, |am, ep| map(am, ep, index_of(ep, index)?, name, tag))
}

/// See `am.h`.
///
/// # Safety
/// `index` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_MapAny(ep: Handle, index: *mut c_int, name: Name, tag: u64) -> c_int {
    at_ep(ep, |am, ep| {
        if index.is_null() {
            return Err(Code::BadArg);
        }
        let free = ep.translations.borrow().iter().position(Option::is_none).ok_or(Code::Resource)?;
        map(am, ep, free, name, tag)?;
        // SAFETY: the caller's promise.
        unsafe { put(index, c_int::try_from(free).map_err(|_| Code::Resource)?) }
    })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_Unmap(ep: Handle, index: c_int) -> c_int {
    at_ep(ep, |_, ep| {
        let index = index_of(ep, index)?;
        let entry = ep.translations.borrow_mut()[index].take().ok_or(Code::Resource)?;
        entry.connection.into_iter().for_each(|connection| leave::unmap(ep, connection));
        Ok(())
    })
}

fn translation(ep: &Ep, index: c_int) -> Result<Translation, Code> {
    ep.translation(index_of(ep, index)?).ok_or(Code::Resource)
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_GetTranslationInuse(ep: Handle, index: c_int) -> c_int {
    at_ep(ep, |_, ep| translation(ep, index).map(drop))
}

/// See `am.h`.
///
/// # Safety
/// `name` is null, or has room for a name.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetTranslationName(ep: Handle, index: c_int, name: *mut Name) -> c_int {
    // SAFETY: the caller's promise.
    at_ep(ep, |_, ep| unsafe { put(name, translation(ep, index)?.name) })
}

/// See `am.h`.
///
/// # Safety
/// `tag` is null, or has room for a tag.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetTranslationTag(ep: Handle, index: c_int, tag: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    at_ep(ep, |_, ep| unsafe { put(tag, translation(ep, index)?.tag) })
}

/// See `am.h`.
///
/// # Safety
/// `count` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetNumTranslations(ep: Handle, count: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    at_ep(ep, |_, ep| unsafe { put(count, ep.translations.borrow().len() as c_int) })
}

/// The new length of a table whose entries beyond it have to be free.
pub(crate) fn resize<T: Clone>(table: &mut Vec<Option<T>>, length: c_int, max: usize) -> Result<(), Code> {
    let length = usize::try_from(length).ok().filter(|length| *length > 0).ok_or(Code::BadArg)?;
    if length > max {
        return Err(Code::Resource);
    }
    if table.iter().skip(length).any(Option::is_some) {
        return Err(Code::InUse);
    }
    table.resize(length, None);
    Ok(())
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_SetNumTranslations(ep: Handle, count: c_int) -> c_int {
    at_ep(ep, |_, ep| resize(&mut ep.translations.borrow_mut(), count, MAX_TRANSLATIONS))
}

/// See `am.h`.
///
/// # Safety
/// `count` is null, or has room for a number.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_MaxNumTranslations(count: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(count, MAX_TRANSLATIONS as c_int) })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_SetExpectedResources(ep: Handle, endpoints: c_int, requests: c_int) -> c_int {
    // Credits adapt to what is used, so there is nothing to set.
    at_ep(ep, |_, _| if endpoints > 0 && requests > 0 { Ok(()) } else { Err(Code::BadArg) })
}

/// See `am.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM_SetTag(ep: Handle, tag: u64) -> c_int {
    at_ep(ep, |_, ep| {
        ep.tag.set(Tag(tag));
        Ok(())
    })
}

/// See `am.h`.
///
/// # Safety
/// `tag` is null, or has room for a tag.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetTag(ep: Handle, tag: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    at_ep(ep, |_, ep| unsafe { put(tag, ep.tag.get().0) })
}

/// The length of the segment that is the whole address space.
const MAX_SEGMENT: usize = usize::MAX;

/// See `am.h`.
///
/// # Safety
/// Transfers may read and write this memory until the segment is another, or the endpoint is freed.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_SetSeg(ep: Handle, start: *mut c_void, length: usize) -> c_int {
    at_ep(ep, |_, ep| {
        // No segment reaches beyond the end of the address space. One without an address is empty, or all of that.
        let has_end = start.addr().checked_add(length).is_some();
        if !has_end || (start.is_null() && !matches!(length, 0 | MAX_SEGMENT)) {
            return Err(Code::BadArg);
        }
        // SAFETY: the caller's promise. The segment before it is taken back.
        ep.segment.replace(unsafe { ForeignMemory::new(start.cast(), length) });
        Ok(())
    })
}

/// See `am.h`.
///
/// # Safety
/// The pointers are null, or have room for an address and a length.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_GetSeg(ep: Handle, start: *mut *mut c_void, length: *mut usize) -> c_int {
    at_ep(ep, |_, ep| {
        let segment = ep.segment.borrow();
        // SAFETY: the caller's promise.
        unsafe { put(start, segment.start().cast()).and_then(|()| put(length, segment.length())) }
    })
}

/// See `am.h`.
///
/// # Safety
/// `length` is null, or has room for a length.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM_MaxSegLength(length: *mut usize) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { put(length, MAX_SEGMENT) })
}

/// See `am.h`.
///
/// # Safety
/// `node` is null, or has room for `bytes` bytes.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_NodeName(node: *mut c_char, bytes: usize) -> c_int {
    guarded(|| {
        am::with(|am| {
            let name = am.node.name().as_bytes();
            if node.is_null() || bytes <= name.len() {
                return Err(Code::BadArg);
            }
            // SAFETY: not null, there is room for the name and its end, and the caller's promise.
            unsafe {
                node.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len());
                node.add(name.len()).write(0);
            }
            Ok(())
        })
    })
}
