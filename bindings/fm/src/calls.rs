//! The functions of `fm.h`. Each checks its arguments and catches panics.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::{Duration, Instant};

use am_api::Owner;
use am_c_runtime::{NodeOwner, last_error, thread_end};
use am_fm::{Cluster, Fm, HandlerId, MeetError, Rank};

use crate::code::{self, Code, Failure};
use crate::here::{self, HandlerFn, Here, Message};
use crate::place;

/// How long `FM_finalize` waits for what is under way.
const FINISH: Duration = Duration::from_secs(5);

/// A call that waits looks this often whether its thread was cancelled, and whether the node's descriptors are still there.
const SLICE: Duration = Duration::from_millis(100);

/// More than any transport carries in a message; below what a slice may have.
const FRAME_MOST: usize = 1 << 20;

#[inline]
fn call(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    am_c_runtime::call(|| work().unwrap_or_else(code::keep), |said| code::keep(Failure::new(Code::Internal, said)))
}

/// Wait in parts, until one of them has a result, the time is over or the thread was cancelled.
fn in_slices<T>(timeout: Duration, mut wait: impl FnMut(Duration) -> (bool, T)) -> T {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let (is_done, result) = wait(left.min(SLICE));
        if is_done || left <= SLICE || thread_end::is_cancelled() {
            return result;
        }
    }
}

fn rank(number: c_int) -> Result<Rank, Failure> {
    let bad = || Failure::new(Code::Dest, format!("{number} is no node: they count from 0"));
    usize::try_from(number).map(Rank).map_err(|_| bad())
}

fn index(number: c_int) -> Result<HandlerId, Failure> {
    let bad = || Failure::new(Code::Handler, format!("{number} is no handler: they are numbered from 0 to 255"));
    u8::try_from(number).map(HandlerId).map_err(|_| bad())
}

fn milliseconds(number: c_int) -> Result<Duration, Failure> {
    let bad = || Failure::argument(format!("{number} ms: a time is not negative"));
    u64::try_from(number).map(Duration::from_millis).map_err(|_| bad())
}

fn count(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// # Safety
/// `text` is null, or a string that ends with 0 and outlives what is returned.
unsafe fn string<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// # Safety
/// `names` is null, or points to `nodes` pointers. Each is null or points to a string that ends with 0 and outlives the returned list.
unsafe fn strings<'a>(names: *const *const c_char, nodes: c_int) -> Result<Vec<&'a str>, Failure> {
    let nodes = usize::try_from(nodes).map_err(|_| Failure::argument("`nodes` is negative"))?;
    if names.is_null() {
        return Err(Failure::argument("`names` is NULL"));
    }
    // SAFETY: not null, and the caller's promise of each.
    (0..nodes).map(|at| unsafe { string(*names.add(at), &format!("`names[{at}]`")) }).collect()
}

/// See `fm.h`.
///
/// # Safety
/// The strings are null or end with 0; `names` is null or has `nodes` of them.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn FM_initialize(
    transport: *const c_char,
    node: c_int,
    nodes: c_int,
    names: *const *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (transport, names) = unsafe { (string(transport, "`transport`")?, strings(names, nodes)?) };
        let own = usize::try_from(node).map_err(|_| Failure::argument("`node` is negative"))?;
        here::slot(|place| {
            if place.is_some() {
                return Err(Failure::plain(Code::Initialized));
            }
            let cluster = Cluster::new(&names, Rank(own)).map_err(Failure::of(Code::Nodes))?;
            // Before the transport opens: a child may be forked meanwhile.
            let owner = Owner::new().map_err(Failure::of(Code::Transport))?;
            let transport = place::open(transport, own, names.len()).map_err(Failure::of(Code::Transport))?;
            let node = Fm::open(cluster, transport).map_err(Failure::of(Code::Transport))?;
            *place = Some((node, NodeOwner::new(owner)));
            Ok(0)
        })
    })
}

/// See `fm.h`.
///
/// # Safety
/// `run` may be called with `context`, on this thread, until another is set or the node finalised.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn FM_set_handler(handler: c_int, run: Option<HandlerFn>, context: *mut c_void) -> c_int {
    call(|| {
        let handler = index(handler)?;
        let run = run.ok_or_else(|| Failure::argument("the handler is NULL"))?;
        here::outside(|fm| {
            fm.on(handler, move |(), message| here::run(run, context, message));
            Ok(0)
        })
    })
}

/// See `fm.h`.
///
/// # Safety
/// As for [`FM_set_handler`].
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn FM_set_returned(run: Option<HandlerFn>, context: *mut c_void) -> c_int {
    call(|| {
        let run = run.ok_or_else(|| Failure::argument("the handler is NULL"))?;
        here::outside(|fm| {
            fm.on_returned(move |(), back| {
                let view = Message::new(back.dest(), back.handler(), back.words(), back.bytes());
                let view = &view;
                // SAFETY: the caller's promise; `view` is valid until the function returns.
                thread_end::handler(move || unsafe { run(context, view) });
            });
            Ok(0)
        })
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_meet(timeout: c_int) -> c_int {
    call(|| {
        let timeout = milliseconds(timeout)?;
        here::outside(|fm| {
            let met = in_slices(timeout, |part| {
                let met = fm.meet(part);
                (!matches!(met, Err(MeetError::Missing(_))), met)
            });
            Ok(met.map(|()| 0)?)
        })
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_send_4(dest: c_int, handler: c_int, i0: u64, i1: u64, i2: u64, i3: u64) -> c_int {
    call(|| {
        let (dest, handler, words) = (rank(dest)?, index(handler)?, [i0, i1, i2, i3]);
        here::here(|here| match here {
            Here::Handler(message) => Ok(message.send_4(dest, handler, words).map(|()| 0)?),
            Here::Outside(fm) => Ok(fm.send_4(&mut (), dest, handler, words).map(|()| 0)?),
        })
    })
}

/// See `fm.h`.
///
/// # Safety
/// `buf` has `size` bytes, which nobody writes until this returns; it may be null where `size` is 0.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn FM_send(dest: c_int, handler: c_int, buf: *const c_void, size: usize) -> c_int {
    call(|| {
        let (dest, handler) = (rank(dest)?, index(handler)?);
        let bytes = match size {
            0 => &[][..],
            _ if buf.is_null() => return Err(Failure::argument("`buf` is NULL")),
            FRAME_MOST.. => return Err(Failure::plain(Code::TooLarge)),
            // SAFETY: not null, not long, and the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), size) },
        };
        here::here(|here| match here {
            Here::Handler(message) => Ok(message.send(dest, handler, bytes).map(|()| 0)?),
            Here::Outside(fm) => Ok(fm.send(&mut (), dest, handler, bytes).map(|()| 0)?),
        })
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_extract() -> c_int {
    call(|| here::receive(|fm| fm.extract(&mut ())).map(count))
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_extract_or_wait(timeout: c_int) -> c_int {
    call(|| {
        let timeout = milliseconds(timeout)?;
        let found = in_slices(timeout, |part| {
            let mut found = here::receive(|fm| fm.extract_or_wait(&mut (), part));
            if part == SLICE && matches!(found, Ok(0)) {
                found = here::slot(here::hang_up_if_lost).map(|()| 0);
            }
            (!matches!(found, Ok(0)), found)
        });
        found.map(count)
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_node() -> c_int {
    call(|| {
        here::here(|here| match here {
            Here::Handler(message) => Ok(count(message.cluster().own().0)),
            Here::Outside(fm) => Ok(count(fm.cluster().own().0)),
        })
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_nodes() -> c_int {
    call(|| {
        here::here(|here| match here {
            Here::Handler(message) => Ok(count(message.cluster().nodes())),
            Here::Outside(fm) => Ok(count(fm.cluster().nodes())),
        })
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_most(dest: c_int) -> c_int {
    call(|| {
        let dest = rank(dest)?;
        here::outside(|fm| Ok(count(fm.most(dest).unwrap_or(0))))
    })
}

/// See `fm.h`.
///
/// # Safety
/// `name` is null or ends with 0.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn FM_counter(name: *const c_char) -> i64 {
    let mut value = 0;
    let code = call(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { string(name, "`name`")? };
        here::outside(|fm| {
            value = i64::try_from(fm.counters().get(name)).unwrap_or(i64::MAX);
            Ok(0)
        })
    });
    if code < 0 { code.into() } else { value }
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_finalize() -> c_int {
    call(|| {
        let (node, _owner) = here::slot(|place| {
            here::hang_up_if_lost(place)?;
            place.take().ok_or_else(|| Failure::plain(Code::NotInitialized))
        })?;
        node.finish(FINISH).map(|()| 0).map_err(Failure::of(Code::Timeout))
    })
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_error() -> *const c_char {
    last_error()
}

/// See `fm.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn FM_strerror(number: c_int) -> *const c_char {
    match (number, Code::of(number)) {
        (0.., _) => c"no error".as_ptr(),
        (_, Some(code)) => code.text().as_ptr(),
        (_, None) => c"no error of this library".as_ptr(),
    }
}
