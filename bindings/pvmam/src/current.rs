//! The message whose handler runs on this thread, and the right to reply to it.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::io::IoSlice;
use std::mem::ManuallyDrop;

use am_api::{HandlerId, Token};
use am_c_runtime::thread_end;

use crate::code::{Code, Failure};
use crate::handle::Handle;
use crate::header::{HandlerFn, Header, REQUEST};

/// A message while its handler runs.
struct Current {
    interface: Handle,
    /// The address of the header that the handler has.
    header: usize,
    kind: c_int,
    /// `None` if there was a reply, or can be none.
    token: Option<Token>,
}

thread_local! {
    // A program may end in a handler: then the token is leaked with the node that the call has.
    static CURRENT: RefCell<ManuallyDrop<Option<Current>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

fn set(current: Option<Current>) {
    let before = CURRENT.with(|place| std::mem::replace(&mut **place.borrow_mut(), current));
    // An unused token declines the reply, which touches the node.
    drop(before);
}

/// While this exists, the thread runs a handler.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        set(None);
    }
}

/// Run a handler of the program.
#[inline]
pub(crate) fn run(run: HandlerFn, interface: Handle, header: &Header, data: &[u8], token: Option<Token>) {
    let at = (&raw const *header).addr();
    set(Some(Current { interface, header: at, kind: header.kind, token }));
    let _running = Running;
    let (interface, length, data): (*mut c_void, _, *const u8) = (interface.pointer(), data.len(), data.as_ptr());
    // SAFETY: `pvmam.h` asks of the program that each function in the table is a handler. Header and data are valid until it returns.
    thread_end::handler(move || unsafe { run(interface, header, data.cast(), length) });
}

/// # Errors
/// A handler runs on this thread.
#[inline]
pub(crate) fn check_outside() -> Result<(), Failure> {
    if CURRENT.with(|current| current.borrow().is_some()) { Err(Failure::plain(Code::InHandler)) } else { Ok(()) }
}

/// A reply's data.
pub(crate) enum Data<'a> {
    Bytes(&'a [u8]),
    Vector(&'a [IoSlice<'a>]),
}

/// Reply to the message whose handler runs.
///
/// # Errors
/// There is none with this header, or it is no request, or it was replied to.
pub(crate) fn reply(
    interface: Handle,
    header: *const Header,
    handler: HandlerId,
    words: &[u64],
    data: &Data<'_>,
) -> Result<(), Failure> {
    let token = CURRENT.with(|current| take_token(current.borrow_mut().as_mut(), interface, header))?;
    match data {
        Data::Bytes(bytes) => token.reply(handler, words, bytes)?,
        Data::Vector(parts) => token.reply_vectored(handler, words, parts)?,
    }
    Ok(())
}

fn take_token(current: Option<&mut Current>, interface: Handle, header: *const Header) -> Result<Token, Failure> {
    let wrong = |text: &str| Failure::new(Code::Reply, text);
    if header.is_null() {
        return Err(Failure::argument("`header` is NULL: pass the header that the handler has got"));
    }
    let current = current.ok_or_else(|| wrong("no handler runs: reply while the handler of the request runs"))?;
    if current.header != header.addr() {
        return Err(wrong(
            "this is not the header that the handler has got, or a copy of it: pass that pointer itself",
        ));
    }
    if current.interface != interface {
        return Err(wrong("the request has come by another interface: pass the interface that the handler has got"));
    }
    if current.kind != REQUEST {
        return Err(wrong("the handler's message is no request: only a request has a reply"));
    }
    current.token.take().ok_or_else(|| wrong("this request has its reply already: a request has one"))
}
