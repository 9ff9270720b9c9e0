//! The functions of `am_spmd.h`: the process's place in its job.

use std::ffi::{c_int, c_void};
use std::fmt::Display;
use std::rc::Rc;

use am_spmd::{ExchangeError, Place};

use crate::am::{self, Am};
use crate::bundle::Bundle;
use crate::code::{Code, guarded};
use crate::context;
use crate::name::Name;
use crate::progress;
use crate::tables::Handle;

/// See `am_spmd.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SpmdRank() -> c_int {
    number(|am| am.rank)
}

/// See `am_spmd.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SpmdSize() -> c_int {
    number(|am| am.size)
}

/// -1 before `AM_Init`.
fn number(of: impl FnOnce(&Am) -> usize) -> c_int {
    let mut found = -1;
    guarded(|| {
        found = am::with(|am| Ok(of(am)))? as c_int;
        Ok(())
    });
    found
}

/// Do this with all processes; meanwhile all bundles are polled.
fn together<T>(
    am: &Rc<Am>,
    work: impl FnOnce(&mut Place, &mut dyn FnMut()) -> Result<T, ExchangeError>,
) -> Result<T, Code> {
    if context::is_in_handler() {
        return Err(Code::BadArg);
    }
    let bundles: Vec<Rc<Bundle>> = am.bundles.borrow().all().cloned().collect();
    let mut poll = || {
        let mut busy = bundles.iter().filter(|bundle| progress::poll(am, bundle)).count();
        if bundles.is_empty() {
            busy += usize::from(am.turn());
        }
        if busy == 0 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    };
    // The place that the node was opened with.
    let process = am::PROCESS.lock();
    let mut kept = process.place.borrow_mut();
    work(kept.get().ok_or(Code::NotInit)?, &mut poll).map_err(said)
}

fn said(error: impl Display) -> Code {
    eprintln!("libam2: {error}");
    Code::Resource
}

/// The blobs of all ranks.
fn exchange(am: &Rc<Am>, blob: &[u8]) -> Result<Vec<Vec<u8>>, Code> {
    together(am, |place, poll| place.exchange_with(blob, poll))
}

/// See `am_spmd.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SpmdBarrier() -> c_int {
    guarded(|| am::with(|am| together(am, |place, poll| place.barrier_with(poll))))
}

/// See `am_spmd.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SpmdEndJob(code: c_int) -> c_int {
    guarded(|| {
        am::not_in_child()?;
        // Not under the lock: another thread may wait for the others under it.
        Place::end_job(u8::try_from(code).map_err(|_| Code::BadArg)?).map_err(said)
    })
}

/// See `am_spmd.h`.
///
/// # Safety
/// `own` has `bytes` bytes, `all` has as many for each rank.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn AM2_SpmdExchange(own: *const c_void, bytes: usize, all: *mut c_void) -> c_int {
    guarded(|| {
        am::with(|am| {
            if own.is_null() || all.is_null() || bytes > am_spmd::MAX_BLOB {
                return Err(Code::BadArg);
            }
            // SAFETY: not null, and the caller's promise.
            let blob = unsafe { std::slice::from_raw_parts(own.cast::<u8>(), bytes) };
            let blobs = exchange(am, blob)?;
            if blobs.iter().any(|blob| blob.len() != bytes) {
                // Each rank has to give as many.
                return Err(Code::BadArg);
            }
            for (rank, blob) in blobs.iter().enumerate() {
                // SAFETY: not null, and the caller's promise.
                unsafe { all.cast::<u8>().add(rank * bytes).copy_from_nonoverlapping(blob.as_ptr(), bytes) };
            }
            Ok(())
        })
    })
}

/// See `am_spmd.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn AM2_SpmdMap(ep: Handle, tag: u64) -> c_int {
    guarded(|| {
        let own = am::with_ep(ep, |_, ep| Ok(ep.name))?;
        let names = am::with(|am| exchange(am, own.bytes()))?;
        let count = names.len() as c_int;
        am::with_ep(ep, |_, ep| {
            if ep.translations.borrow().len() >= names.len() {
                return Ok(());
            }
            crate::calls::resize(&mut ep.translations.borrow_mut(), count, crate::endpoint::MAX_TRANSLATIONS)
        })?;
        for (rank, name) in names.iter().enumerate() {
            let name = Name::of_bytes(name).ok_or(Code::BadArg)?;
            match crate::calls::AM_Map(ep, rank as c_int, name, tag) {
                0 => {}
                _ => return Err(Code::Resource),
            }
        }
        Ok(())
    })
}
