//! The node of the calling thread, and the message whose handler runs on it.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use am_c_runtime::{NodeOwner, thread_end};
use am_fm::Fm;

use crate::code::{Code, Failure};

/// `FM_message` of `fm.h`.
#[repr(C)]
#[derive(Debug)]
pub struct Message {
    /// The node that sent it. For a returned message, the node to which it was sent.
    pub node: c_int,
    /// The handler that it names.
    pub handler: c_int,
    /// The words of `FM_send_4`, or zeros.
    pub i: [u64; 4],
    /// The bytes of `FM_send`.
    pub buf: *const c_void,
    /// The number of bytes.
    pub size: usize,
}

impl Message {
    pub(crate) fn new(node: am_fm::Rank, handler: am_fm::HandlerId, i: [u64; 4], bytes: &[u8]) -> Message {
        let node = c_int::try_from(node.0).unwrap_or(-1);
        Message { node, handler: handler.0.into(), i, buf: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

/// `FM_handler` of `fm.h`.
///
/// # Safety
/// The message is valid until the function returns. The function returns, or ends its thread.
pub type HandlerFn = unsafe extern "C-unwind" fn(context: *mut c_void, message: *const Message);

/// A thread's node. The node is closed before the process ceases to be its owner.
pub(crate) type Owned = (Fm<()>, NodeOwner);

/// The thread's node, if it has one. A program may end in a handler (`exit`): then the node is still borrowed when the
/// thread ends, and is leaked. So is the copy in a forked child, because its drop would notify the peers that the parent has left.
struct Slot(RefCell<ManuallyDrop<Option<Owned>>>);

impl Drop for Slot {
    fn drop(&mut self) {
        if !am_api::is_forked_child()
            && let Ok(mut node) = self.0.try_borrow_mut()
        {
            drop(node.take());
        }
    }
}

thread_local! {
    static NODE: Slot = const { Slot(RefCell::new(ManuallyDrop::new(None))) };
    /// The number of idle calls.
    static IDLE: Cell<u32> = const { Cell::new(0) };
    /// The message whose handler runs on this thread.
    static CURRENT: Cell<Option<NonNull<c_void>>> = const { Cell::new(None) };
}

/// The context of an API call: inside a handler, or outside.
pub(crate) enum Here<'a> {
    /// In the handler of this message.
    Handler(&'a am_fm::Message<'a, ()>),
    /// Outside, on a thread with this node.
    Outside(&'a mut Fm<()>),
}

/// # Errors
/// This process was forked from one with a node. Frames of both would break the parent's connections.
#[inline]
fn not_in_child() -> Result<(), Failure> {
    if am_api::is_forked_child() { Err(Failure::plain(Code::Forked)) } else { Ok(()) }
}

/// Run `work` with the context of the current call.
#[inline]
pub(crate) fn here<T>(work: impl FnOnce(Here<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    if let Some(message) = CURRENT.get() {
        not_in_child()?;
        // SAFETY: `run` has put it there, a reference to a message that it
        // borrows until it takes it away again; it has not returned, since we
        // are called, on the same thread, by the handler that it called. The
        // reference made here ends with this call, before the handler does.
        let message = unsafe { message.cast::<am_fm::Message<'_, ()>>().as_ref() };
        return work(Here::Handler(message));
    }
    outside(|node| work(Here::Outside(node)))
}

/// Run `work` with the thread's node. In a handler this is an error.
#[inline]
pub(crate) fn outside<T>(work: impl FnOnce(&mut Fm<()>) -> Result<T, Failure>) -> Result<T, Failure> {
    slot(|node| {
        let mut result = work(&mut node.as_mut().ok_or_else(|| Failure::plain(Code::NotInitialized))?.0);
        if let Err(failure) = &mut result {
            hang_up_if_lost(node)?;
            // This node itself may be the cause.
            if matches!(failure.code, Code::Unreachable | Code::Timeout)
                && let Some((fm, _)) = node
            {
                failure.text = fm.explain(&failure.text);
            }
        }
        result
    })
}

/// The number of idle calls of a thread between two checks of the node's descriptors.
const IDLE_CALLS: u32 = 256;

/// Run `work`, which receives, with the thread's node. In a handler this is an error.
#[inline]
pub(crate) fn receive(work: impl FnOnce(&mut Fm<()>) -> usize) -> Result<usize, Failure> {
    outside(|node| Ok(work(node))).and_then(|count| {
        if count == 0 && IDLE.replace(IDLE.get().wrapping_add(1)).is_multiple_of(IDLE_CALLS) {
            slot(hang_up_if_lost)?;
        }
        Ok(count)
    })
}

/// Check whether the program has closed descriptors of the library. If so, close the node.
///
/// # Errors
/// The program has closed such a descriptor.
#[cold]
pub(crate) fn hang_up_if_lost(node: &mut Option<Owned>) -> Result<(), Failure> {
    if node.as_ref().is_some_and(|(_, owner)| owner.is_lost()) {
        // The drop closes the remaining descriptors.
        *node = None;
        return Err(Failure::plain(Code::Lost));
    }
    Ok(())
}

/// Run `work` with the thread's node slot. In a handler this is an error.
#[inline]
pub(crate) fn slot<T>(work: impl FnOnce(&mut Option<Owned>) -> Result<T, Failure>) -> Result<T, Failure> {
    not_in_child()?;
    let found = NODE.try_with(|node| match node.0.try_borrow_mut() {
        Ok(mut node) => work(&mut node),
        // The node is borrowed by the call that runs the current handler.
        Err(_) => Err(Failure::plain(Code::InHandler)),
    });
    // The thread is ending, and the node is gone.
    found.unwrap_or_else(|_| Err(Failure::plain(Code::NotInitialized)))
}

/// Run a handler of the program.
#[inline]
pub(crate) fn run(handler: HandlerFn, context: *mut c_void, message: &am_fm::Message<'_, ()>) {
    let view = Message::new(message.source(), message.handler(), message.words(), message.bytes());
    let view = &view;
    let _current = Current::set(message);
    // SAFETY: `fm.h` asks of the program for a function of this type, that may be
    // called with this context until it sets another or finalises. `view` is
    // valid until the function returns, as `fm.h` says.
    thread_end::handler(move || unsafe { handler(context, view) });
}

/// While this exists, the thread runs the handler of a message.
struct Current;

impl Current {
    fn set(message: &am_fm::Message<'_, ()>) -> Current {
        CURRENT.set(Some(NonNull::from(message).cast()));
        Current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}
