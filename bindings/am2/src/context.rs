//! The message whose handler runs on a thread: what C programs have as the token.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;

use am_api::Token;

use crate::endpoint::{Common, Ep};
use crate::name::Name;
use crate::tables::Handle;

/// The way of a reply.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// Over the network.
    Token(Token),
    /// To an endpoint of this process, and the request's translation there.
    Local(Handle, usize),
}

/// A message while its handler runs: what C has as the token.
pub(crate) struct Context<'a> {
    pub(crate) common: &'a Common,
    pub(crate) ep: &'a Ep,
    /// The sender's name, looked up when a handler asks.
    pub(crate) source: &'a dyn Fn() -> Option<Name>,
    /// The translation that leads to the sender.
    pub(crate) index: &'a dyn Fn() -> Option<usize>,
    pub(crate) handler: u8,
    /// As in `am.h`.
    pub(crate) operation: c_int,
    pub(crate) tag: u64,
    /// Until the handler has replied; never of a reply.
    pub(crate) reply: RefCell<Option<ReplyTo>>,
}

thread_local! {
    /// The message whose handler runs on this thread.
    pub(crate) static CURRENT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
    /// Error handlers run, too, and have no message.
    pub(crate) static IN_ERROR: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is a handler.
pub(crate) fn is_in_handler() -> bool {
    !CURRENT.get().is_null() || IN_ERROR.get()
}

/// Run `work` with the message of this token; `None` if it is not the one whose handler runs on this thread.
pub(crate) fn with_token<T>(token: *mut c_void, work: impl FnOnce(&Context<'_>) -> T) -> Option<T> {
    let current = CURRENT.get();
    if token.is_null() || !ptr::addr_eq(token, current) {
        return None;
    }
    // SAFETY: `receive::run` has put it there, for as long as its handler runs: that handler has called this.
    Some(work(unsafe { &*current }))
}
