//! What a call returns when it fails: a negative number, and a text that says what to do.

use std::cell::Cell;
use std::ffi::c_int;

use am_api::{NotOpen, ReplyError, RequestError};
use am_c_runtime::{failures, keep_error};

failures! {
    /// A wrong argument.
    Argument = -1, c"an argument is wrong; am_error() says which";
    /// The tables do not exist.
    NotInitialized = -2, c"the table of identifiers does not exist";
    /// They exist already.
    Initialized = -3, c"am_global_init was called already";
    /// The transport could not be opened.
    Transport = -4, c"the transport could not be opened; am_error() says why";
    /// The interface is closed.
    Shutdown = -5, c"this interface has been shut down; call am_init for another one";
    /// The interface belongs to another thread.
    Thread = -6, c"this interface belongs to another thread; only the thread that called am_init may use it";
    /// A forked child.
    Forked = -7, c"this process was forked: the interface is its parent's; call am_init after exec";
    /// Not from within a handler.
    InHandler = -8, c"not from within a handler; a handler may reply, and send requests after it has returned";
    /// No such identifier.
    Id = -9, c"no such identifier; am_error() says which there are";
    /// The identifiers are used up.
    Full = -10, c"the table of identifiers is full; am_bind_address_with_id replaces an address";
    /// No such task, or one too many.
    Task = -11, c"the list of tasks does not allow this tid; am_error() says why";
    /// No such endpoint.
    Endpoint = -12, c"no such endpoint at this interface; am_allocate_task returns one";
    /// It is connected.
    Connected = -13, c"already connected; am_deallocate_task ends the connection";
    /// It is not connected.
    NotConnected = -14, c"not connected; call am_connect_task on one side and am_accept_task on the other";
    /// No task's address.
    Address = -15, c"this address leads nowhere from here; am_error() says why";
    /// No reply is possible.
    Reply = -16, c"no reply can be sent with this header; am_error() says why";
    /// Longer than a message may be.
    TooLarge = -17, c"longer than a message may be; send it in parts";
    /// The peer does not answer.
    Unreachable = -18, c"the task is not there, or not any more";
    /// The time was over.
    Timeout = -19, c"the time was over; am_error() says what is missing";
    /// The program has closed the interface's descriptors.
    Lost = -20, c"this program has closed descriptors of libpvmam (closefrom, close_range, dup2), and the interface has ended; call am_init again";
    /// Interfaces are open.
    Open = -21, c"interfaces are open";
    /// A bug of this library.
    Internal = -22, c"a bug in this library; am_error() has its text";
}

impl From<RequestError> for Failure {
    #[cold]
    fn from(error: RequestError) -> Failure {
        let code = match error {
            RequestError::TooLarge { needs, most } => return too_large(needs, most),
            RequestError::Closed => Code::NotConnected,
            _ => Code::Unreachable,
        };
        Failure::new(code, error)
    }
}

impl From<ReplyError> for Failure {
    #[cold]
    fn from(error: ReplyError) -> Failure {
        let code = match error {
            ReplyError::TooLarge { needs, most } => return too_large(needs, most),
            ReplyError::Closed | ReplyError::NodeDropped => Code::Reply,
            _ => Code::Unreachable,
        };
        Failure::new(code, error)
    }
}

/// The code of a connection that is not open.
pub(crate) fn of_not_open(why: NotOpen) -> Code {
    match why {
        NotOpen::Connecting => Code::Timeout,
        NotOpen::Closed => Code::NotConnected,
        NotOpen::Refused(_) | NotOpen::Dead(_) => Code::Unreachable,
    }
}

#[cold]
fn too_large(needs: usize, most: usize) -> Failure {
    Failure::new(
        Code::TooLarge,
        format!("{needs} bytes, and a message to this task has at most {most}: send them in parts"),
    )
}

thread_local! {
    /// The code of the last failure on this thread.
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Keep the text for `am_error`, and the code for `am_error_code`.
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    keep_error(failure.text);
    LAST.set(failure.code as c_int);
    failure.code as c_int
}

/// The code of the last failure on this thread, 0 if there was none.
pub(crate) fn last() -> c_int {
    LAST.get()
}
